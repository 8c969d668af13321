import { test } from "node:test"
import assert from "node:assert/strict"
import type { Rgb } from "./colours"
import { blockAt, boxes, flow, hit, paint, scaleBar } from "./segment_flow"
import { INACTIVE, layOut } from "../data/segments"
import { randomDevice } from "../testing_allocator"

const WIDTHS = [7, 40, 173]

function laidOut(seed: number, width: number) {
  const device = randomDevice(seed, 70)
  const layout = layOut(device, 60)
  return { device, layout, laid: flow(layout, [...layout.uses.keys()].reverse(), 512, width, 3, 2) }
}

test("bars are to one scale, do not overlap, and break only where a row is too short", () => {
  for (let seed = 1; seed <= 20; seed++) {
    for (const width of WIDTHS) {
      const { layout, laid } = laidOut(seed, width)
      const taken = new Set<string>()
      for (const { row, x, width: px } of laid.pieces) {
        assert.ok(px > 0 && x >= 0 && x + px <= width && row < laid.rows)
        for (let k = x; k < x + px; k++) {
          assert.ok(!taken.has(`${row} ${k}`))
          taken.add(`${row} ${k}`)
        }
      }
      layout.uses.forEach(({ reserved }, segment) => {
        const own = laid.pieces.filter((piece) => piece.segment === segment)
        const px = own.reduce((all, piece) => all + piece.width, 0)
        assert.equal(px, Math.max(3, Math.round(reserved / 512)))
        if (px <= width) assert.equal(own.length, 1)
      })
    }
  }
})

test("a pixel leads to its byte, and the byte's box holds the pixel", () => {
  for (const width of WIDTHS) {
    const { layout, laid } = laidOut(4, width)
    assert.equal(hit(layout, laid, width + 1, 0), null)
    for (const { segment, row, x, width: px } of laid.pieces) {
      for (let k = x; k < x + px; k++) {
        const found = hit(layout, laid, k + 0.5, row)!
        assert.equal(found.segment, segment)
        const block = blockAt(layout, segment, found.offset)
        assert.ok(layout.offset[block] <= found.offset && found.offset < layout.offset[block] + layout.size[block])
        const [box] = boxes(layout, laid, segment, found.offset, found.offset + 1e-6)
        assert.equal(box.row, row)
        assert.ok(Math.abs(box.x - (k + 0.5)) < 1e-3)
      }
    }
  }
})

test("a block's boxes are as wide as its bytes", () => {
  const { layout, laid } = laidOut(6, 40)
  layout.uses.forEach(({ reserved }, segment) => {
    const all = boxes(layout, laid, segment, 0, reserved)
    assert.ok(Math.abs(all.reduce((sum, box) => sum + box.width, 0) - laid.length.get(segment)!) < 1e-6)
  })
})

test("every pixel has the colours of what it covers, by their shares", () => {
  const colours: Rgb[] = [
    [240, 0, 0],
    [0, 240, 0],
    [0, 0, 240],
  ]
  for (let seed = 1; seed <= 12; seed++) {
    for (const width of WIDTHS) {
      const { device, layout, laid } = laidOut(seed, width)
      const pixels = paint(device, layout, laid, (block) => colours[layout.state[block]], [120, 120, 120])
      for (const { segment, row, x, width: px, skip } of laid.pieces) {
        const scale = layout.uses[segment].reserved / laid.length.get(segment)!
        for (let k = 0; k < px; k++) {
          const sums = [0, 0, 0]
          for (let n = 0; n < 50; n++) {
            const byte = (skip + k + (n + 0.5) / 50) * scale
            const block = blockAt(layout, segment, byte)
            const id = layout.allocation[block]
            const over = layout.state[block] !== INACTIVE && byte - layout.offset[block] >= device.requested[id]
            const colour = over ? [120, 120, 120] : colours[layout.state[block]]
            colour.forEach((value, c) => (sums[c] += value / 50))
          }
          const at = (row * width + x + k) * 4
          sums.forEach((value, c) => assert.ok(Math.abs(pixels[at + c] - value) < 16, `${pixels[at + c]} is not ${value}`))
          assert.equal(pixels[at + 3], 255)
        }
      }
    }
  }
})

test("a scale bar is a power of two near the wanted length", () => {
  assert.deepEqual([scaleBar(1, 100), scaleBar(2 ** 20, 100), scaleBar(1.5 * 2 ** 20, 100)], [128, 2 ** 27, 2 ** 27])
})
