import { test } from "node:test"
import assert from "node:assert/strict"
import { INACTIVE, isPrivate, keptSegments, layOut } from "./segments"
import { randomDevice } from "../testing_allocator"

test("a segment is kept where one or two blocks have an eighth of it at most, and no private pool has it", () => {
  let tried = 0
  for (let seed = 1; seed <= 60; seed++) {
    const device = randomDevice(seed, 80)
    for (let event = -1; event < device.events; event++) {
      const layout = layOut(device, event)
      const expected = layout.uses.flatMap((use, segment) => {
        if (isPrivate(device, device.segments.pool[layout.rows[segment]])) return []
        const blocks = [...layout.state.keys()].filter(
          (b) => layout.first[segment] <= b && b < layout.first[segment + 1] && layout.state[b] !== INACTIVE,
        )
        const used = use.reserved - use.inactive
        return blocks.length && blocks.length < 3 && used * 8 <= use.reserved
          ? [{ segment, offset: 0, size: use.reserved, kept: use.inactive, blocks }]
          : []
      })
      const found = keptSegments(device, layout)
      tried += found.length
      assert.deepEqual(
        [...found].sort((a, b) => a.segment - b.segment),
        expected,
      )
      assert.ok(found.every((each, k) => k === 0 || found[k - 1].kept >= each.kept))
    }
  }
  assert.ok(tried > 100)
})
