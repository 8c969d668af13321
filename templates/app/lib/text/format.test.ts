import { test } from "node:test"
import assert from "node:assert/strict"
import { formatBytes, formatCount, formatDuration, formatShare, formatSignedBytes, formatEvents } from "./format"
import { byteTickLabels, byteTicks, eventTicks } from "../picture/ticks"

test("bytes read as the Python side writes them", () => {
  assert.equal(formatBytes(512), "512 B")
  assert.equal(formatBytes(1024), "1.00 KiB")
  assert.equal(formatBytes(1152), "1.13 KiB")
  assert.equal(formatBytes(1023.99 * 1024), "1.00 MiB")
  assert.equal(formatBytes(12431545344), "11.58 GiB")
  assert.equal(formatBytes(-115.8 * 1024 ** 2), "-115.8 MiB")
  assert.equal(formatSignedBytes(0), "0 B")
  assert.equal(formatSignedBytes(36175872), "+34.50 MiB")
})

test("counts, shares and durations", () => {
  assert.equal(formatCount(22332), "22,332")
  assert.equal(formatShare(1, 3), "33.3%")
  assert.equal(formatShare(1, 10_000_000), "<0.1%")
  assert.equal(formatDuration(850), "850 \u00b5s")
  assert.equal(formatDuration(12_100), "12.1 ms")
  assert.equal(formatDuration(3_420_000), "3.42 s")
  assert.equal(formatDuration(247_000_000), "4 min 07 s")
})

test("ticks are round and lie inside", () => {
  const gib = 1024 ** 3
  assert.deepEqual(
    byteTicks(0, 12 * gib, 6).map((t) => t / gib),
    [0, 2, 4, 6, 8, 10, 12],
  )
  assert.deepEqual(byteTickLabels([0, gib / 2, gib]), ["0", "0.5 GiB", "1.0 GiB"])
  const mib = 1024 ** 2
  assert.deepEqual(byteTickLabels(byteTicks(0, 2.4 * mib, 5)), ["0", "0.5 MiB", "1.0 MiB", "1.5 MiB", "2.0 MiB"])
  assert.deepEqual(byteTickLabels(byteTicks(11.5 * gib, 11.53 * gib, 3)), ["11.50 GiB", "11.51 GiB", "11.52 GiB", "11.53 GiB"])
  assert.deepEqual(eventTicks(-1, 22332, 5), [0, 5000, 10000, 15000, 20000])
  assert.deepEqual(eventTicks(3.2, 6.9, 10), [4, 5, 6])
})

test("a stage's events leave out its end, and a stage without an event says so", () => {
  assert.deepEqual(
    [
      [5, 90],
      [-1, 1],
      [2572, 2572],
    ].map(([start, end]) => formatEvents(start, end)),
    ["5 to 89", "0 to 0", "none at 2,572"],
  )
})
