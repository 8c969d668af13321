/** What is live after an event by source line, as a line-by-line memory tracer prints it. */

import type { Curve } from "../data/curves"
import { type Device, type Stacks, stripsOf } from "../data/device"
import { frameText, isCompiled, type Line, treeText, withoutFrame } from "../data/frames"
import { type Amounts, answerOf, type Question, restOf } from "../data/questions"
import type { Origins } from "../data/origins"
import { medianOf } from "../data/places"
import type { Test } from "./search"

export const NO_MATCH = "no matching frame"

/** Which line each allocation belongs to; the same at every event. */
export interface LineMap {
  lines: Line[]
  ofOrigin: Int32Array
  /** What each line allocated in the entire recording, in the curves asked for so far. */
  ever: Partial<Record<Curve, Amounts>>
}

/** Chooses a line for every origin.
 *
 * Without a filter it is the call site. With one it is the innermost frame whose file matches; a frame
 * without a known file never does.
 */
export function mapLines(device: Device, stacks: Stacks, origins: Origins, passes: Test | null): LineMap {
  const lines: Line[] = []
  const first = firstOfLine(stacks)
  const ofKey = new Map<string | number, number>()
  // Compiled code is a call site without a line; but its file may be asked for.
  const textOf = (frame: number) => (passes !== null && isCompiled(stacks, frame) ? frameText : treeText)(stacks, frame)
  const lineOf = (one: string | number) => {
    const key = typeof one === "number" ? first[one] : one
    let line = ofKey.get(key)
    if (line === undefined) {
      line = lines.push(typeof key === "number" ? textOf(key) : withoutFrame(key)) - 1
      ofKey.set(key, line)
    }
    return line
  }
  const ofFile = new Int8Array(stacks.strings.length).fill(-1)
  const passesFrame = (frame: number) => {
    const file = stacks.frameFile[frame]
    if (ofFile[file] < 0) {
      const known = frameText(stacks, frame).file
      ofFile[file] = Number(known !== "" && passes!(known))
    }
    return ofFile[file] === 1
  }
  const ofOrigin = new Int32Array(origins.length).fill(-1)
  for (const origin of origins.used) {
    if (origin >= origins.stacks) ofOrigin[origin] = lineOf(device.missingReasons[origin - origins.stacks])
    else if (passes === null) ofOrigin[origin] = lineOf(stacks.stackSite[origin])
    else {
      let node = stacks.stackNode[origin]
      while (node >= 0 && !passesFrame(stacks.nodeFrame[node])) node = stacks.nodeParent[node]
      ofOrigin[origin] = lineOf(node < 0 ? NO_MATCH : stacks.nodeFrame[node])
    }
  }
  return { lines, ofOrigin, ever: {} }
}

/** How the names of frames begin that stand for the gradients of a line; as in `model/snapshot.py`. */
const GRADIENT_OF = "gradient of "

/** The first frame with each frame's file and line; a line's own frame comes before that of its gradients. */
function firstOfLine({ strings, frameFile, frameLine, frameName }: Stacks): Int32Array {
  const first = new Map<string, number>()
  const keys = Array.from(frameFile, (file, frame) =>
    frameLine[frame] > 0 ? `${file} ${frameLine[frame]}` : `${file} of ${frameName[frame]}`,
  )
  const isGradient = (frame: number) => strings[frameName[frame]].startsWith(GRADIENT_OF)
  for (const [frame, key] of keys.entries()) {
    const known = first.get(key)
    if (known === undefined || (isGradient(known) && !isGradient(frame))) first.set(key, frame)
  }
  return Int32Array.from(keys, (key) => first.get(key)!)
}

export type LineRow = ReturnType<typeof linesAt>[number]

/** The lines with something in an answer, most bytes first; what is live, or a change, adds up to the curve, or to its change. */
export function linesAt(device: Device, origins: Origins, map: LineMap, question: Question, answer = answerOf(device, question)) {
  const { curve } = question
  const { height } = stripsOf(device, curve)
  const ever = (map.ever[curve] ??= everOf(device, origins, map, height))
  const rows = map.lines.map((_, line) => ({
    /** Place in `LineMap.lines`. */
    line,
    /** Of a change: what came less what went, and both together. */
    bytes: 0,
    moved: 0,
    count: 0,
    /** The median and the smallest of the sizes: of two, both are known. NaN if not drawn one by one. */
    median: 0,
    least: 0,
    /** Everything that the line allocated in the recording, including what was freed again. */
    ever: ever.bytes[line],
    everCount: ever.count[line],
  }))
  const { rows: found, signs } = answer
  for (let k = 0; k < found.length; k++) {
    const size = height[found[k]]
    const line = map.ofOrigin[origins.ofAllocation[found[k]]]
    const row = rows[line]
    row.bytes += signs ? signs[k] * size : size
    row.moved += size
    row.count++
  }
  // The sizes of each line behind one another, in order.
  const sizes = new Float64Array(found.length)
  let end = 0
  const next = rows.map(({ count }) => (end += count) - count)
  for (let k = 0; k < found.length; k++) sizes[next[map.ofOrigin[origins.ofAllocation[found[k]]]]++] = height[found[k]]
  rows.forEach((row, line) => {
    const sorted = sizes.subarray(next[line] - row.count, next[line]).sort()
    row.median = medianOf(sorted)
    row.least = sorted[0] ?? 0
  })
  if (device.rest) {
    const row = rows[map.ofOrigin[origins.ofAllocation[device.rest.row]]]
    const rest = restOf(device, question)
    row.bytes += rest.bytes
    row.moved += Math.abs(rest.bytes)
    row.count += rest.count
    row.ever += device.rest.ever[curve]
    row.everCount += device.rest.ever.count
    row.median = NaN // their sizes are not known one by one
  }
  return rows.filter((row) => row.count > 0).sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes) || a.line - b.line)
}

/** Without rows that are never live: those left out, and the one that stands for what is not drawn one by one. */
function everOf({ allocEvent, freeEvent }: Device, { ofAllocation }: Origins, { lines, ofOrigin }: LineMap, height: Float64Array): Amounts {
  const bytes = new Float64Array(lines.length)
  const ever = { bytes, count: new Int32Array(lines.length), moved: bytes }
  for (let i = 0; i < height.length; i++) {
    if (freeEvent[i] <= allocEvent[i]) continue
    const line = ofOrigin[ofAllocation[i]]
    ever.bytes[line] += height[i]
    ever.count[line]++
  }
  return ever
}

export type LineColumn = "bytes" | "median" | "count" | "ever" | "location"

/** Orders rows by a column: numbers largest first, locations from A to Z, or the reverse. */
export function sortLines(rows: LineRow[], map: LineMap, by: LineColumn, reversed: boolean): LineRow[] {
  const text = (row: LineRow) => {
    const { file, name } = map.lines[row.line]
    return file || name
  }
  const compare = (a: LineRow, b: LineRow) =>
    by === "location"
      ? text(a).localeCompare(text(b)) || (map.lines[a.line].line ?? 0) - (map.lines[b.line].line ?? 0)
      : Math.abs(b[by]) - Math.abs(a[by])
  return [...rows].sort((a, b) => (reversed ? -1 : 1) * compare(a, b) || b.moved - a.moved || a.line - b.line)
}

/** The running sum down the list. */
export function cumulative(rows: LineRow[]): Float64Array {
  let sum = 0
  return Float64Array.from(rows, (row) => (sum += row.bytes))
}

/** 1 for each allocation of the entire recording that belongs to a line. */
export function rowsOfLine(origins: Origins, map: LineMap, line: number): Uint8Array {
  const rows = new Uint8Array(origins.ofAllocation.length)
  for (let i = 0; i < rows.length; i++) rows[i] = Number(map.ofOrigin[origins.ofAllocation[i]] === line)
  return rows
}
