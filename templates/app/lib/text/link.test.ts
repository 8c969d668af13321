import assert from "node:assert/strict"
import { test } from "node:test"
import { decodeLink, encodeLink, type Link } from "./link"

test("a view comes back from its link", () => {
  const link: Link = {
    device: 1,
    axis: "time",
    window: [-0.5, 1234.25, 0, 5e9],
    curve: "requested",
    cursor: -1,
    colouring: "stage",
    only: new Map([
      ["role", [3]],
      ["metadata:a;b,c", [1]],
    ]),
    without: new Map([["site", [0, 1, 2, 12]]]),
    pinned: 3,
    a: -1,
    b: 12,
    c: 30,
    ask: "stayed",
    tab: "stacks",
    search: "a=b&c, #ü</script>",
    stacks: "flame",
    frames: "all",
    focus: 12,
    selection: "lines:12",
  }
  assert.deepEqual(decodeLink(`#${encodeLink(link)}`), link)
})

test("rows in a link are ranges, however many there are", () => {
  const without = new Map([["size", [0, 1, 2, 3, 7, 9, 10]]])
  assert.equal(encodeLink({ without }), "without=size:0-3,7,9-10")
  assert.deepEqual(decodeLink("without=size:0-3,7,x,-1,5-2,9-10;role;:").without, without)
  const { only } = decodeLink("only=role:0-999999999,0-999999999;size:1-999999999")
  assert.deepEqual(
    [...only!].map(([name, rows]) => [name, rows.length]),
    [["role", 100_000]],
  )
})

test("a view like the page's own has an empty link", () => {
  assert.equal(encodeLink({}), "")
  assert.deepEqual(decodeLink(""), {})
})

test("what makes no sense in a link is left out", () => {
  assert.deepEqual(decodeLink("#event=x&view=1,2,NaN,3&a=1.5&only=1,2&device=1e9&colour=%E0%A4%A&tab=lines&nothing"), {
    colouring: "",
    tab: "lines",
  })
})

test("links of the page without JavaScript still name a device", () => {
  assert.deepEqual(decodeLink("#device-2"), { device: 2 })
})
