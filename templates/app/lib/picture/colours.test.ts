import assert from "node:assert/strict"
import { test } from "node:test"
import { groupColours, parse, type Rgb, ROLE_COLOURS } from "./colours"
import { luminance } from "../testing"
import { APART, type Colouring, type Group, type Grouping } from "../tables/grouping"

const ROLES = [...Object.keys(ROLE_COLOURS), "unknown"]

function grouping(colouring: Colouring, count: number, change: (row: number) => Partial<Group> = () => ({})): Grouping {
  const groups = Array.from({ length: count }, (_, row) => ({
    key: `group ${row}`,
    label: `group ${row}`,
    detail: "",
    full: "",
    rest: false,
    bytes: 10,
    count: 1,
    ...change(row),
  }))
  return { colouring, groups, ofAllocation: new Int32Array(0), ordered: colouring === "size" || colouring === "age" }
}

for (const dark of [false, true]) {
  test(`sizes and lifetimes go steadily from the ${dark ? "dark to the light" : "light to the dark"}`, () => {
    for (const colouring of ["size", "age"] as const) {
      for (const count of [2, 5, 12, 24]) {
        const light = groupColours(grouping(colouring, count), dark).map(luminance)
        for (let k = 1; k < count; k++) assert.ok(dark ? light[k] > light[k - 1] : light[k] < light[k - 1], `${colouring} ${count} ${k}`)
      }
    }
  })

  test(`neighbours among the largest groups differ in ${dark ? "the dark" : "the light"}, by hue and by lightness`, () => {
    const found = groupColours(grouping("category", 12), dark)
    for (let k = 1; k < found.length; k++) {
      const apart = Math.hypot(...found[k].map((channel, c) => channel - found[k - 1][c]))
      assert.ok(apart > 50, `${k}: ${apart}`)
      assert.ok(Math.abs(luminance(found[k]) - luminance(found[k - 1])) > 0.02, `${k}`)
    }
    assert.equal(new Set(found.map(String)).size, 12)
  })
}

test("every role has a colour of its own, far from all others and from both backgrounds", () => {
  for (const dark of [false, true]) {
    const named = grouping("role", ROLES.length, (row) => ({ key: ROLES[row], rest: ROLES[row] === "unknown" }))
    const found = [...groupColours(named, dark), parse(dark ? "#181b20" : "#fafbfc")].map(oklab)
    for (let k = 1; k < found.length; k++)
      for (let other = 0; other < k; other++) {
        const apart = Math.hypot(...found[k].map((part, axis) => part - found[other][axis]))
        assert.ok(apart > 0.09, `${ROLES[other]} and ${ROLES[k] ?? "background"}: ${apart}`)
      }
    assert.deepEqual(
      groupColours(
        grouping("role", 1, () => ({ key: "gradient", bytes: 0 })),
        dark,
      ),
      [parse("#a64954")],
    )
  }
})

/** As in https://bottosson.github.io/posts/oklab/: alike distances look alike. */
function oklab(colour: Rgb): Rgb {
  const [r, g, b] = colour.map((channel) => luminance([channel, channel, channel]))
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ]
}

test("what is not known is grey and takes no leading colour", () => {
  const [first, second] = groupColours(
    grouping("category", 2, (row) => ({ rest: row === 0 })),
    false,
  )
  assert.ok(Math.max(...first) - Math.min(...first) < 20)
  assert.deepEqual(second, groupColours(grouping("category", 1), false)[0])
})

test("what belongs nowhere is told apart from what is not known", () => {
  for (const dark of [false, true]) {
    const [first, second] = groupColours(
      grouping("stage", 2, (row) => ({ rest: true, key: row ? APART : "" })),
      dark,
    )
    assert.ok(Math.abs(first[0] - second[0]) > 30)
  }
})

test("a group's pale colour depends on its name alone", () => {
  const small = (row: number) => ({ bytes: 0, key: `name ${row % 2}` })
  const [a, b, c] = groupColours(grouping("category", 3, small), false)
  assert.deepEqual(a, c)
  assert.notDeepEqual(a, b)
})
