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
    only: [3],
    without: [0, 1, 2, 12],
    pinned: 3,
    ruler: [1, 2, 3, 4],
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
  assert.equal(encodeLink({ without: [0, 1, 2, 3, 7, 9, 10] }), "without=0-3,7,9-10")
  assert.deepEqual(decodeLink("without=0-3,7,x,-1,5-2,9-10").without, [0, 1, 2, 3, 7, 9, 10])
  assert.equal(decodeLink("only=0-999999999,0-999999999").only!.length, 100_000)
})

test("a view like the page's own has an empty link", () => {
  assert.equal(encodeLink({}), "")
  assert.deepEqual(decodeLink(""), {})
})

test("what makes no sense in a link is left out", () => {
  assert.deepEqual(decodeLink("#event=x&view=1,2,NaN,3&ruler=1,2&device=1e9&colour=%E0%A4%A&tab=lines&nothing"), {
    colouring: "",
    tab: "lines",
  })
})

test("links of the page without JavaScript still name a device", () => {
  assert.deepEqual(decodeLink("#device-2"), { device: 2 })
})
