import assert from "node:assert/strict"
import { test } from "node:test"
import { groupColours, luminance, type Rgb } from "./colours"
import { APART, type Colouring, type Group, type Grouping } from "../tables/grouping"

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

function colours(of: Grouping, dark: boolean): Rgb[] {
  const bytes = groupColours(of, dark)
  return of.groups.map((_, row) => [...bytes.slice(row * 4, row * 4 + 3)] as Rgb)
}

for (const dark of [false, true]) {
  test(`sizes and lifetimes go steadily from the ${dark ? "dark to the light" : "light to the dark"}`, () => {
    for (const colouring of ["size", "age"] as const) {
      for (const count of [2, 5, 12, 24]) {
        const light = colours(grouping(colouring, count), dark).map(luminance)
        for (let k = 1; k < count; k++) assert.ok(dark ? light[k] > light[k - 1] : light[k] < light[k - 1], `${colouring} ${count} ${k}`)
      }
    }
  })

  test(`neighbours among the largest groups differ in ${dark ? "the dark" : "the light"}, by hue and by lightness`, () => {
    const found = colours(grouping("category", 12), dark)
    for (let k = 1; k < found.length; k++) {
      const apart = Math.hypot(...found[k].map((channel, c) => channel - found[k - 1][c]))
      assert.ok(apart > 50, `${k}: ${apart}`)
      assert.ok(Math.abs(luminance(found[k]) - luminance(found[k - 1])) > 0.02, `${k}`)
    }
    assert.equal(new Set(found.map(String)).size, 12)
  })
}

test("what is not known is grey and takes no leading colour", () => {
  const [first, second] = colours(
    grouping("category", 2, (row) => ({ rest: row === 0 })),
    false,
  )
  assert.ok(Math.max(...first) - Math.min(...first) < 20)
  assert.deepEqual(second, colours(grouping("category", 1), false)[0])
})

test("what belongs nowhere is told apart from what is not known", () => {
  for (const dark of [false, true]) {
    const [first, second] = colours(
      grouping("stage", 2, (row) => ({ rest: true, key: row ? APART : "" })),
      dark,
    )
    assert.ok(Math.abs(first[0] - second[0]) > 30)
  }
})

test("a group's pale colour depends on its name alone", () => {
  const small = (row: number) => ({ bytes: 0, key: `name ${row % 2}` })
  const [a, b, c] = colours(grouping("category", 3, small), false)
  assert.deepEqual(a, c)
  assert.notDeepEqual(a, b)
})
