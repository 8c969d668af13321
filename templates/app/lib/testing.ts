/** Makers of small random data for tests. */

import type { Strips } from "./curves"
import type { Device, Segments, Stacks } from "./device"

/** A repeatable source of numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Strips of a random history: baseline first, at most one birth or death per step. */
export function randomStrips(seed: number, events: number): Strips {
  const next = random(seed)
  const birth: number[] = []
  const death: number[] = []
  const height: number[] = []
  const live: number[] = []
  const bear = (step: number) => {
    live.push(birth.length)
    birth.push(step)
    death.push(events)
    height.push(512 * (1 + Math.floor(next() ** 4 * 300)))
  }
  for (let i = Math.floor(next() * 12); i > 0; i--) bear(-1)
  if (next() < 0.3) {
    birth.push(-1)
    death.push(-1)
    height.push(512)
  }
  for (let step = 0; step < events; step++) {
    const roll = next()
    if (roll < 0.45) bear(step)
    else if (roll < 0.85 && live.length) death[live.splice(Math.floor(next() * live.length), 1)[0]] = step
  }
  return {
    events,
    birth: Int32Array.from(birth),
    death: Int32Array.from(death),
    height: Float64Array.from(height),
  }
}

/** Times in microseconds: bursts of events at one instant, gaps, and now and then a clock that steps back. */
export function randomTimes(seed: number, events: number): Float64Array {
  const next = random(seed)
  const times = new Float64Array(events)
  for (let s = 1; s < events; s++) {
    const roll = next()
    times[s] = times[s - 1] + (roll < 0.35 ? 0 : roll < 0.4 ? -Math.floor(next() * 5) : Math.floor(next() ** 5 * 400))
  }
  return times
}

/** Stacks of frames (name, file), innermost first as they are recorded.
 *
 * A call site is the innermost frame whose file ends in .py, else the innermost. */
export function stacksOf(stacks: [string, string][][]): Stacks {
  const strings: string[] = []
  const id = (text: string) => (strings.includes(text) ? strings.indexOf(text) : strings.push(text) - 1)
  const [frameName, frameFile, nodeParent, nodeFrame, stackNode, stackSite] = [[], [], [], [], [], []] as number[][]
  for (const stack of stacks) {
    let node = -1
    for (const [name, file] of [...stack].reverse()) {
      let frame = frameName.findIndex((n, f) => n === id(name) && frameFile[f] === id(file))
      if (frame < 0) {
        frame = frameName.push(id(name)) - 1
        frameFile.push(id(file))
      }
      let next = nodeParent.findIndex((parent, n) => parent === node && nodeFrame[n] === frame)
      if (next < 0) {
        next = nodeParent.push(node) - 1
        nodeFrame.push(frame)
      }
      node = next
    }
    stackNode.push(node)
    const place = Math.max(stack.findIndex(([, file]) => file.endsWith(".py")), 0)
    let of = node
    for (let k = 0; k < place; k++) of = nodeParent[of]
    stackSite.push(of < 0 ? -1 : nodeFrame[of])
  }
  const ints = (values: number[]) => Int32Array.from(values)
  return {
    strings,
    frameName: ints(frameName), frameFile: ints(frameFile), frameLine: new Int32Array(frameName.length).fill(7),
    nodeParent: ints(nodeParent), nodeFrame: ints(nodeFrame), stackNode: ints(stackNode), stackSite: ints(stackSite),
    frameKind: ints(frameFile.map((file) => (strings[file].endsWith(".py") && !strings[file].includes("/torch/") ? 0 : 3))),
  }
}

/** Segments: address, size, start and end. */
export function segmentsOf(rows: [address: number, size: number, start: number, end: number][]): Segments {
  const floats = (column: number) => Float64Array.from(rows, (row) => row[column])
  const ints = (column: number) => Int32Array.from(rows, (row) => row[column])
  const none = new Int32Array(rows.length)
  return { count: rows.length, address: floats(0), size: floats(1), start: ints(2), end: ints(3), stream: none, pool: none.map(() => -1), kind: none, expandable: none }
}

export const REASONS = ["", "before recording", "recorded without frames"]

/** A device of strips whose blocks are as large as what was requested, with these stacks.
 *
 * A stack of -1 is missing for reason 1; those in `empty` have no frames, reason 2. */
export function deviceOf(strips: Strips, stack: number[], empty: number[] = []): Device {
  const n = strips.birth.length
  const none = new Int32Array(n).fill(-1)
  return {
    id: "cuda:0", events: strips.events, count: n,
    summary: { device: "cuda:0", capacity: null, events: strips.events, allocations: n, recorded: true, peaks: {} as never, sites: [], stages: [], ooms: [] },
    requested: strips.height, block: strips.height, blockMax: strips.height,
    allocStep: strips.birth, freeRequestedStep: strips.death, freeStep: strips.death,
    addr: none.map((_, i) => i), addrValues: new Float64Array(n), stack: Int32Array.from(stack), freeStack: none,
    missing: Int32Array.from(stack, (id) => (id < 0 ? 1 : empty.includes(id) ? 2 : 0)), missingReasons: REASONS,
    stream: new Int32Array(n), streamValues: new Float64Array(1), pool: none, pools: [],
    category: none, categoryRules: {}, compileContext: none, metadata: none, stepTime: new Float64Array(0), timeOriginUs: null,
    reservedStep: Int32Array.of(-1), reservedBytes: Float64Array.of(0),
    eventStep: new Int32Array(0), eventAction: new Int32Array(0), actions: [],
    eventAddr: new Float64Array(0), eventSize: new Float64Array(0), eventStream: new Int32Array(0), eventStack: new Int32Array(0),
    segments: segmentsOf([]),
  }
}
