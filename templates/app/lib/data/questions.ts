/** What panels can ask: what is live after one event, or what came, went or stayed between two. As in `figures/questions.py`. */

import { formatEvent } from "../text/format"
import type { Curve, Ints } from "./curves"
import { type Device, stripsOf } from "./device"
import { liveAt, livesOf } from "./lives"
import { restAt } from "./rest"

export const KINDS = ["live", "change", "stayed", "made", "passing", "freed", "throughout"] as const
export type Kind = (typeof KINDS)[number]

/** `live` is about the state after event `at`; the others are about what happens after event `from`, up to and including event `to`. */
export interface Question {
  kind: Kind
  curve: Curve
  at: number
  from: number
  to: number
  /** `stayed` counts what is still live after this event. */
  alive: number
}

/** The allocations that answer a question, in birth order. */
export interface Answer {
  rows: Int32Array
  /** Of a change: 1 for each one that came, -1 for each that went; else null. */
  signs: Int8Array | null
}

/** Bytes and allocations, row by row. Of a change the bytes are what came less what went, and `moved` is both together; else `moved` is `bytes`. */
export interface Amounts {
  bytes: Float64Array
  count: Int32Array
  moved: Float64Array
}

/** The question about what is live after an event. */
export function liveQuestion(curve: Curve, at: number): Question {
  return { kind: "live", curve, at, from: at, to: at, alive: at }
}

type Answers = (birth: number, death: number, q: Question) => number

/** Whether an allocation of `livingIn` answers: 1, or -1 for one that went; 0 if it does not. It lives from `birth` to before `death`. */
const ANSWERS: Record<Exclude<Kind, "live">, Answers> = {
  change: (birth, death, q) => (birth > q.from ? (death > q.to ? 1 : 0) : death > q.to ? 0 : -1),
  stayed: (birth, death, q) => (birth > q.from && birth <= q.alive && death > q.alive ? 1 : 0),
  made: (birth, _, q) => (birth > q.from ? 1 : 0),
  passing: (birth, death, q) => (birth > q.from && death <= q.to ? 1 : 0),
  freed: (_, death, q) => (death <= q.to ? 1 : 0),
  throughout: (birth, death, q) => (birth <= q.from && death > q.to ? 1 : 0),
}

/** The allocations live at some event of those that a question is about, in birth order. */
function livingIn(device: Device, { curve, from, to }: Question): Int32Array {
  const { birth, death } = stripsOf(device, curve)
  const before = liveAt(device, curve, from)
  const lives = livesOf(device)
  const [first, end] = [lives.bornBy(from), lives.bornBy(to)]
  const rows = new Int32Array(before.length + Math.max(end - first, 0))
  rows.set(before)
  let count = before.length
  for (let i = first; i < end; i++) if (death[i] > birth[i]) rows[count++] = i // what is left out dies as it is born
  return rows.subarray(0, count)
}

/** Finds the allocations that answer a question, in a time proportional to those live at its start and those made in between. */
export function answerOf(device: Device, q: Question): Answer {
  if (q.kind === "live") return { rows: liveAt(device, q.curve, q.at), signs: null }
  const { birth, death } = stripsOf(device, q.curve)
  const answers = ANSWERS[q.kind]
  const rows = livingIn(device, q)
  const signs = new Int8Array(rows.length)
  let count = 0
  for (const i of rows) {
    const sign = answers(birth[i], death[i], q)
    if (!sign) continue
    signs[count] = sign
    rows[count++] = i
  }
  return { rows: rows.slice(0, count), signs: q.kind === "change" ? signs.slice(0, count) : null }
}

/** Adds an answer up by row: `rowOf` has the row of each allocation, and of what is not drawn one by one, which only counts for `live` and `change`. */
export function amountsOf(device: Device, q: Question, rowOf: Ints, rows: number, answer = answerOf(device, q)): Amounts {
  const { height } = stripsOf(device, q.curve)
  const { rows: found, signs } = answer
  const [bytes, count] = [new Float64Array(rows), new Int32Array(rows)]
  const moved = signs ? new Float64Array(rows) : bytes
  for (let k = 0; k < found.length; k++) {
    const row = rowOf[found[k]]
    bytes[row] += signs ? signs[k] * height[found[k]] : height[found[k]]
    if (signs) moved[row] += height[found[k]]
    count[row]++
  }
  if (device.rest) {
    const rest = restOf(device, q)
    const row = rowOf[device.rest.row]
    bytes[row] += rest.bytes
    if (signs) moved[row] += Math.abs(rest.bytes)
    count[row] += rest.count
  }
  return { bytes, count, moved }
}

/** Bytes and allocations of every question about the same events, found together. */
export function totalsOf(device: Device, q: Question): Record<keyof typeof ANSWERS, { bytes: number; count: number }> {
  const { birth, death, height } = stripsOf(device, q.curve)
  const [came, went, passing, throughout, stayed] = Array.from({ length: 5 }, () => ({ bytes: 0, count: 0 }))
  const rows = livingIn(device, q)
  for (let k = 0; k < rows.length; k++) {
    const i = rows[k]
    const isMade = birth[i] > q.from
    const sum = death[i] > q.to ? (isMade ? came : throughout) : isMade ? passing : went
    sum.bytes += height[i]
    sum.count++
    if (!isMade || birth[i] > q.alive || death[i] <= q.alive) continue
    stayed.bytes += height[i]
    stayed.count++
  }
  const rest = restOf(device, { ...q, kind: "change" })
  const both = (a: typeof came, b: typeof came) => ({ bytes: a.bytes + b.bytes, count: a.count + b.count })
  const change = { bytes: came.bytes - went.bytes + rest.bytes, count: came.count + went.count + rest.count }
  return { change, stayed, made: both(came, passing), passing, freed: both(went, passing), throughout }
}

/** What is live after an event in one curve, added up by row. */
export function amountsLive(device: Device, curve: Curve, event: number, rowOf: Ints, rows: number): Amounts {
  return amountsOf(device, liveQuestion(curve, event), rowOf, rows)
}

/** What of those not drawn one by one answers: only what is live, and how that changed, is known of them. */
export function restOf({ rest }: Device, q: Question): { bytes: number; count: number } {
  if (q.kind === "live") return restAt(rest, q.curve, q.at)
  if (q.kind !== "change") return { bytes: 0, count: 0 }
  const [then, now] = [q.from, q.to].map((event) => restAt(rest, q.curve, event))
  const bytes = now.bytes - then.bytes
  return { bytes, count: Math.abs(now.count - then.count) || Number(bytes !== 0) }
}

/** For each allocation 1 if it answers, -1 if it is one that went, else 0. */
export function marksOf(device: Device, { rows, signs }: Answer): Int8Array {
  const marks = new Int8Array(device.count)
  for (let k = 0; k < rows.length; k++) marks[rows[k]] = signs ? signs[k] : 1
  return marks
}

/** The question as a sentence, of markers by their letters. `marked`: whether C is set. */
export function sentence(kind: Kind, marked = false): string {
  return {
    live: "What is live at the cursor?",
    change: "What changed from A to B?",
    stayed: `What was made between A and B and is alive at ${marked ? "C" : "B"}?`,
    made: "What was made between A and B?",
    passing: "What was made and freed between A and B?",
    freed: "What was freed between A and B?",
    throughout: "What was alive all the time from A to B?",
  }[kind]
}

/** What an answer holds, in words: `made between events 10 and 90`. */
export function answerText({ kind, at, from, to, alive }: Question): string {
  const name = (event: number) => (event < 0 ? "the start" : formatEvent(event))
  const between = `between ${name(from)} and ${name(to)}`
  return {
    live: `live at ${name(at)}`,
    change: `came or went ${between}`,
    stayed: `made ${between}, alive at ${name(alive)}`,
    made: `made ${between}`,
    passing: `made and freed ${between}`,
    freed: `freed ${between}`,
    throughout: `alive from ${name(from)} to ${name(to)}`,
  }[kind]
}
