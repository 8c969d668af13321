/** Makers of small random data for tests. */

import { fragmentationInParts } from "./data/fragmentation"
import { curveOf, type Ints, type Strips } from "./data/curves"
import type { Device, Segments, Stacks } from "./data/device"
import { NOT_DRAWN } from "./data/rest"
import { linear, type Rgb } from "./picture/colours"

/** A repeatable source of numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Strips of a random history: baseline first, at most one birth or death per event. */
export function randomStrips(seed: number, events: number): Strips {
  const next = random(seed)
  const birth: number[] = []
  const death: number[] = []
  const height: number[] = []
  const live: number[] = []
  const bear = (event: number) => {
    live.push(birth.length)
    birth.push(event)
    death.push(events)
    height.push(512 * (1 + Math.floor(next() ** 4 * 300)))
  }
  for (let i = Math.floor(next() * 12); i > 0; i--) bear(-1)
  if (next() < 0.3) {
    birth.push(-1)
    death.push(-1)
    height.push(512)
  }
  for (let event = 0; event < events; event++) {
    const roll = next()
    if (roll < 0.45) bear(event)
    else if (roll < 0.85 && live.length) death[live.splice(Math.floor(next() * live.length), 1)[0]] = event
  }
  return { events, birth: Int32Array.from(birth), death: Int32Array.from(death), height: Float64Array.from(height) }
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
    const place = Math.max(
      stack.findIndex(([, file]) => file.endsWith(".py")),
      0,
    )
    let of = node
    for (let k = 0; k < place; k++) of = nodeParent[of]
    stackSite.push(of < 0 ? -1 : nodeFrame[of])
  }
  const ints = (values: number[]) => Int32Array.from(values)
  return {
    strings,
    packages: [],
    linesNote: "",
    frameName: ints(frameName),
    frameFile: ints(frameFile),
    frameLine: new Int32Array(frameName.length).fill(7),
    frameCode: null,
    nodeParent: ints(nodeParent),
    nodeFrame: ints(nodeFrame),
    stackNode: ints(stackNode),
    stackSite: ints(stackSite),
    treeName: new Int32Array(frameName.length).fill(-1),
    siteName: new Int32Array(frameName.length).fill(-1),
    frameKind: ints(frameFile.map((file) => (strings[file].endsWith(".py") && !strings[file].includes("/torch/") ? 0 : 3))),
  }
}

/** Segments: address, size, start and end. */
export function segmentsOf(rows: [address: number, size: number, start: number, end: number][]): Segments {
  const floats = (column: number) => Float64Array.from(rows, (row) => row[column])
  const ints = (column: number) => Int32Array.from(rows, (row) => row[column])
  const none = new Int32Array(rows.length)
  return {
    count: rows.length,
    address: floats(0),
    size: floats(1),
    start: ints(2),
    end: ints(3),
    stream: none,
    pool: none.map(() => -1),
    kind: none,
    expandable: none,
  }
}

export const REASONS = ["", "before recording", "recorded without frames"]

/** A device of strips whose blocks are as large as what was requested, with these stacks.
 *
 * A stack of -1 is missing for reason 1; those in `empty` have no frames, reason 2. */
export function deviceOf(strips: Strips, stack: number[], empty: number[] = []): Device {
  const n = strips.birth.length
  const none = new Int32Array(n).fill(-1)
  return {
    id: "cuda:0",
    events: strips.events,
    count: n,
    summary: {
      capacity: null,
      card: null,
      recorded: true,
      reserved_from: -1,
      peaks: { active: { bytes: 0 } } as never,
      stages: [],
      ooms: [],
    },
    requested: strips.height,
    block: strips.height,
    blockMax: strips.height,
    unit: { allocated: 0, requested: 0 },
    allocEvent: strips.birth,
    freeRequestedEvent: strips.death,
    freeEvent: strips.death,
    addr: none.map((_, i) => i),
    addrValues: new Float64Array(n),
    stack: Int32Array.from(stack),
    freeStack: none,
    missing: Int32Array.from(stack, (id) => (id < 0 ? 1 : empty.includes(id) ? 2 : 0)),
    missingReasons: REASONS,
    stream: new Int32Array(n),
    streamValues: new Float64Array(1),
    pool: none,
    pools: [],
    category: none,
    categoryRules: {},
    role: new Int32Array(n),
    roles: [["unknown", "nothing tells"]],
    roleMeanings: {},
    compileContext: none,
    labels: {},
    metadata: none,
    oneColour: [],
    timed: false,
    eventTime: new Float64Array(0),
    timeOriginUs: null,
    rest: null,
    steps: null,
    replays: [],
    envelopes: [],
    largePage: 20 * 2 ** 20,
    reservedEvent: Int32Array.of(-1),
    reservedBytes: Float64Array.of(0),
    eventIndex: new Int32Array(0),
    eventAction: new Int32Array(0),
    actions: [],
    eventAddr: new Float64Array(0),
    eventSize: new Float64Array(0),
    eventStream: new Int32Array(0),
    eventStack: new Int32Array(0),
    segments: segmentsOf([]),
  }
}

/** A device that does not draw some of its allocations one by one: 1 for each of those. */
export function cutDevice(whole: Device, out: Uint8Array): Device {
  const rows = Int32Array.from(out.keys()).filter((i) => !out[i])
  const row = rows.length
  const fill = <T extends Int32Array | Float64Array>(picked: T, column: ArrayLike<number>, last: number): T => {
    rows.forEach((i, k) => (picked[k] = column[i]))
    picked[row] = last
    return picked
  }
  const pick = (column: Ints, last: number) => fill(new Int32Array(row + 1), column, last)
  const pickBytes = (column: Float64Array, last: number) => fill(new Float64Array(row + 1), column, last)
  const sum = (height: Float64Array, end: Int32Array) =>
    Float64Array.from({ length: whole.events + 1 }, (_, at) =>
      out.reduce((bytes, gone, i) => bytes + (gone && whole.allocEvent[i] < at && end[i] >= at ? height[i] : 0), 0),
    )
  const ever = (height: Float64Array) => out.reduce((bytes, gone, i) => bytes + (gone ? height[i] : 0), 0)
  const one = whole.block.map(() => 1)
  return {
    ...whole,
    count: row + 1,
    requested: pickBytes(whole.requested, 0),
    block: pickBytes(whole.block, 0),
    blockMax: pickBytes(whole.blockMax, 0),
    allocEvent: pick(whole.allocEvent, whole.events),
    freeRequestedEvent: pick(whole.freeRequestedEvent, whole.events),
    freeEvent: pick(whole.freeEvent, whole.events),
    addr: pick(whole.addr, 0),
    stack: pick(whole.stack, -1),
    freeStack: pick(whole.freeStack, -1),
    missing: pick(whole.missing, whole.missingReasons.length),
    missingReasons: [...whole.missingReasons, NOT_DRAWN],
    stream: pick(whole.stream, 0),
    pool: pick(whole.pool, -1),
    category: pick(whole.category, -1),
    role: pick(whole.role, 0),
    compileContext: pick(whole.compileContext, -1),
    labels: Object.fromEntries(Object.entries(whole.labels).map(([name, ids]) => [name, pick(ids, -1)])),
    metadata: pick(whole.metadata, -1),
    rest: {
      row,
      rows,
      versions: new Int32Array(row + 1),
      window: null,
      requested: sum(whole.requested, whole.freeEvent),
      allocated: sum(whole.block, whole.freeRequestedEvent),
      active: sum(whole.block, whole.freeEvent),
      count: { allocated: sum(one, whole.freeRequestedEvent), requested: sum(one, whole.freeEvent) },
      ever: { count: ever(one), requested: ever(whole.requested), allocated: ever(whole.block) },
    },
  }
}

/** The relative luminance of a colour, from 0 to 1. */
export function luminance([r, g, b]: Rgb): number {
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/** Bytes live after each event; element s + 1 belongs to event s. */
export function totals(strips: Strips): Float64Array {
  const curve = curveOf(strips)
  return Float64Array.from({ length: curve.length }, (_, place) => curve.at(place))
}

/** Milliseconds of the processor so far: unlike those of a clock, no other program's work is among them. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** Fragmentation after each event, without a pause. */
export function fragmentationOf(device: Device): Float64Array {
  return fragmentationInParts(device, device.events + 2).next().value!
}
