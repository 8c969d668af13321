/** Finds everything on a page that has a name, by parts of it: functions, files, stages, steps, events, addresses, groups and more. */

import type { Curve } from "../data/curves"
import { stripsOf } from "../data/device"
import { isKept, standIn, treeText } from "../data/frames"
import type { History } from "../data/history"
import { liveAt } from "../data/lives"
import { amountsLive } from "../data/questions"
import { originsOf } from "../data/origins"
import { firstPlace } from "../data/places"
import { stepName } from "../data/steps"
import { formatCount, formatEvent, formatEvents, plural } from "../text/format"
import { EventTable, NAMES, parseFilter } from "./events"
import { type Colouring, colouringsOf, groupBy, whyPlain } from "./grouping"
import { searchLive } from "./live_table"
import { textTest } from "./search"
import { CallTree } from "./tree"

/** Where something is: a number among the things of its kind, or a tab with what to search for there. */
export type Goal =
  | { to: "function" | "stage" | "step" | "event" | "device" | "action"; at: number }
  | { to: "tab"; tab: string; search?: string }
  | { to: "group"; colouring: Colouring; at: number }

export interface Entry {
  /** What it is, in a word. */
  kind: string
  name: string
  /** Where it is, or what tells it from others of its name. */
  detail: string
  goal: Goal
  /** Bytes at the moment; null where it has none. */
  bytes: number | null
}

/** An entry with what is searched: its name, and the rest. */
interface Known extends Entry {
  low: string
  rest: string
  /** What a stage stands for that repeats: those from the cursor on. */
  alike?: Entry[]
}

const MOST_ROWS = 50
/** The most rows for a stage that repeats, and for events that match. */
const MOST_ALIKE = 6
/** Longer names are a stranger's: the rest of them is not looked at. */
const MOST_CHARACTERS = 1000

/** How a part of what was typed can be in an entry, from the best to the least. */
const [EQUAL, BEGINS, WORD, INSIDE, ABBREVIATED, BESIDE] = [32, 16, 12, 6, 3, 2]

export class Finder {
  private readonly known: Known[] = []
  /** The frames of each function, in the order of their entries. */
  private readonly functions: number[][] = []
  private readonly functionOf: Int32Array
  private readonly fileOf: Int32Array
  private readonly files: Known[] = []
  /** The stages of each name, in order. */
  private readonly stages = new Map<Known, number[]>()
  /** Colourings whose groups are not yet among the entries. */
  private readonly waiting: Colouring[]
  private table: EventTable | null = null
  private counted: History
  private curve: Curve = "allocated"
  private cursor = -1
  private live: Int32Array = new Int32Array(0)

  /** `events`: whether events and addresses are found, too. */
  constructor(
    private readonly history: History,
    private readonly events = true,
  ) {
    const { device, stacks } = history
    this.counted = history
    this.functionOf = new Int32Array(stacks.frameName.length).fill(-1)
    this.fileOf = this.functionOf.slice()
    this.addFrames()
    const named = new Map<string, number[]>()
    device.summary.stages.forEach(({ name }, at) => {
      const stages = named.get(name)
      if (stages) stages.push(at)
      else named.set(name, [at])
    })
    for (const [name, stages] of named) this.stages.set(this.add("stage", name, "", { to: "stage", at: stages[0] }), stages)
    const { steps } = device
    steps?.kind.forEach((kind, at) =>
      this.add("step", `Step ${stepName(steps, at)}`, `${kind}, from event ${formatCount(steps.bounds[at])}`, { to: "step", at }),
    )
    this.waiting = colouringsOf(device).flatMap(([name]) => (whyPlain(history, name) ? [] : [name]))
  }

  /** Adds the groups of one more colouring, which takes time in a long recording; returns whether there are more. */
  addGroups(): boolean {
    const colouring = this.waiting.shift()
    if (!colouring) return false
    const { groups } = groupBy(this.history, colouring)
    const title = colouringsOf(this.history.device)
      .find(([name]) => name === colouring)![1]
      .toLowerCase()
    groups.forEach(({ label, detail, full }, at) =>
      this.add("filter", `Only ${title}: ${label}`, detail, { to: "group", colouring, at }, full),
    )
    this.weigh(this.known.length - groups.length)
    return this.waiting.length > 0
  }

  /** Takes the bytes of a moment. `counted`: the history without what is left out. */
  at(counted: History, curve: Curve, cursor: number): void {
    Object.assign(this, { counted, curve, cursor, live: liveAt(counted.device, curve, cursor) })
    this.weigh(0)
  }

  /** What fits best what was typed, the best first. `more`: other things to look among.
   *
   * Each part of what was typed has to be somewhere in the name or beside it, or be made of beginnings of the name's words; a glob
   * and a `/regular expression/` are searched for as elsewhere. Throws a `PatternError` for an expression that cannot be searched for. */
  find(typed: string, more: Entry[]): Entry[] {
    const wanted = typed.trim()
    if (!wanted) {
      const held = this.known.filter(({ kind, bytes }) => kind === "function" && bytes)
      return [...findAmong("", more), ...held.sort(byBytes)].slice(0, MOST_ROWS)
    }
    const named = bestOf(wanted, [more.map((entry) => searchable(entry)), this.known].flat())
    const moments = this.events ? [...this.eventsFor(wanted), ...this.addressesFor(wanted)] : []
    return [...moments, ...named].slice(0, MOST_ROWS)
  }

  /** Where a function holds most in the call stacks: the key of a selection there, and the event to look at: the cursor, or if it
   * holds nothing then, where its largest allocation was made. */
  inStacks(at: number): { key: string; folded: boolean; event: number } {
    const { device, stacks } = this.history
    const frames = this.functions[at]
    const held = this.known.find(({ goal }) => goal.to === "function" && goal.at === at)!.bytes
    const event = held ? this.cursor : this.madeBy(at)
    const origins = originsOf(device, stacks)
    const folded = frames.some((frame) => isKept(stacks, frame))
    const wanted = new Set(folded ? frames.map((frame) => standIn(stacks, frame)) : frames)
    const tree = new CallTree(device, stacks, origins, "down", folded)
    const { bytes } = tree.at(amountsLive(this.counted.device, this.curve, event, origins.ofAllocation, origins.length))
    let node = -1
    tree.frame.forEach((frame, n) => {
      if (wanted.has(frame) && (node < 0 || bytes[n] > bytes[node])) node = n
    })
    return { key: `down-${folded ? "" : "all-"}${node}`, folded, event }
  }

  /** The event at which the largest allocation was made whose call stack has a function. */
  private madeBy(at: number): number {
    const { stacks } = this.history
    const { device } = this.counted
    const { birth, death, height } = stripsOf(device, this.curve)
    const inside = new Uint8Array(stacks.nodeFrame.length)
    stacks.nodeParent.forEach((parent, node) => {
      inside[node] = Number(this.functionOf[stacks.nodeFrame[node]] === at || inside[parent]) // a parent has a smaller number
    })
    let largest = -1
    for (let i = 0; i < birth.length; i++)
      if (death[i] > birth[i] && inside[stacks.stackNode[device.stack[i]]] && !(height[i] <= height[largest])) largest = i
    return largest < 0 ? this.cursor : birth[largest]
  }

  private add(kind: string, name: string, detail: string, goal: Goal, also = ""): Known {
    const entry = searchable({ kind, name, detail, goal, bytes: null }, also)
    this.known.push(entry)
    return entry
  }

  /** Adds the functions and files of this device's call stacks. */
  private addFrames(): void {
    const { device, stacks } = this.history
    const seen = new Uint8Array(stacks.nodeFrame.length)
    const functions = new Map<string, number>()
    const files = new Map<string, number>()
    const meet = (frame: number) => {
      const { name, fullName, file, place } = treeText(stacks, frame)
      const key = `${name}\n${place && file}`
      let at = functions.get(key)
      if (at === undefined) {
        functions.set(key, (at = this.functions.push([]) - 1))
        this.add("function", name, place, { to: "function", at }, `${fullName} ${file}`)
      }
      this.functions[at].push(frame)
      this.functionOf[frame] = at
      if (!file) return
      let of = files.get(file)
      if (of === undefined) {
        files.set(file, (of = this.files.length))
        const base = /[^/\\]*$/.exec(file)![0]
        this.files.push(this.add("file", base, file, { to: "tab", tab: "lines", search: base }))
      }
      this.fileOf[frame] = of
    }
    for (const origin of originsOf(device, stacks).used) {
      if (origin >= stacks.stackNode.length) continue
      for (let node = stacks.stackNode[origin]; node >= 0 && !seen[node]; node = stacks.nodeParent[node]) {
        seen[node] = 1
        const frame = stacks.nodeFrame[node]
        if (this.functionOf[frame] < 0) meet(frame)
      }
    }
  }

  /** Gives the entries from a place on their bytes at the moment. */
  private weigh(from: number): void {
    const { known, functions, files, live } = this
    const { device } = this.counted
    const { summary, steps, allocEvent } = device
    const { height } = stripsOf(device, this.curve)
    /** Bytes of what is live, in birth order, up to each. */
    const below = new Float64Array(live.length + 1)
    live.forEach((i, k) => (below[k + 1] = below[k] + height[i]))
    const bornFrom = (event: number) => firstPlace(0, live.length, (k) => allocEvent[live[k]] >= event)
    const madeIn = (start: number, end: number) => below[bornFrom(end)] - below[bornFrom(Math.max(start, 0))]
    const ofFunction = from ? null : this.heldBy(this.functionOf, functions.length)
    const groups = new Map<Colouring, Float64Array>()
    const inGroups = (colouring: Colouring) => {
      let held = groups.get(colouring)
      if (!held) {
        const { ofAllocation, groups: all } = groupBy(this.history, colouring)
        groups.set(colouring, (held = amountsLive(device, this.curve, this.cursor, ofAllocation, all.length).bytes))
      }
      return held
    }
    for (let k = from; k < known.length; k++) {
      const { goal } = known[k]
      if (goal.to === "function") known[k].bytes = ofFunction![goal.at]
      else if (goal.to === "group") known[k].bytes = inGroups(goal.colouring)[goal.at]
      else if (goal.to === "step") known[k].bytes = madeIn(steps!.bounds[goal.at], steps!.bounds[goal.at + 1])
    }
    if (from) return
    this.heldBy(this.fileOf, files.length).forEach((bytes, file) => (files[file].bytes = bytes))
    for (const [entry, stages] of this.stages) {
      const next = firstPlace(0, stages.length, (k) => summary.stages[stages[k]].end_event > this.cursor)
      const first = Math.max(Math.min(next, stages.length - MOST_ALIKE), 0)
      entry.alike = stages.slice(first, first + MOST_ALIKE).map((at) => {
        const { name, start_event, end_event } = summary.stages[at]
        const some = end_event > Math.max(start_event, 0)
        const detail = some ? `events ${formatEvents(start_event, end_event)}` : `no events, at ${formatEvent(start_event)}`
        return { kind: "stage", name, detail, goal: { to: "stage", at }, bytes: madeIn(start_event, end_event) }
      })
      entry.bytes = Math.max(...entry.alike.map(({ bytes }) => bytes ?? 0))
    }
  }

  /** Bytes at the moment whose call stack has a frame of each thing, once for each. `of`: the thing of each frame, or -1. */
  private heldBy(of: Int32Array, count: number): Float64Array {
    const { stacks, device } = this.history
    const origins = originsOf(device, stacks)
    const { bytes } = amountsLive(this.counted.device, this.curve, this.cursor, origins.ofAllocation, origins.length)
    const held = new Float64Array(count)
    const last = new Int32Array(count).fill(-1)
    for (let origin = 0; origin < origins.stacks; origin++) {
      if (!bytes[origin]) continue
      for (let node = stacks.stackNode[origin]; node >= 0; node = stacks.nodeParent[node]) {
        const thing = of[stacks.nodeFrame[node]]
        if (thing < 0 || last[thing] === origin) continue
        last[thing] = origin
        held[thing] += bytes[origin]
      }
    }
    return held
  }

  /** The event of a number, and the first ones of an action, a size or an address. */
  private eventsFor(wanted: string): Entry[] {
    const { device, stacks } = this.history
    const number = Number(/^(?:event\s+)?#?(\d[\d,]*)$/i.exec(wanted)?.[1].replaceAll(",", "") ?? NaN)
    const filter = parseFilter(wanted, [...NAMES, ...device.actions])
    const asks = filter.actions.size + filter.sizes.length + filter.addresses.length > 0
    if (!asks && !(number < device.events)) return []
    const table = (this.table ??= new EventTable(device, stacks))
    const row = (at: number): Entry => {
      const site = stacks.stackSite[table.tellingStack(at)] ?? -1
      const { name, place } = site < 0 ? { name: "", place: "" } : treeText(stacks, site)
      const name_ = `${formatEvent(at)[0].toUpperCase()}${formatEvent(at).slice(1)}: ${table.actionOf(at)}`
      return {
        kind: "event",
        name: name_,
        detail: [name, place].filter(Boolean).join(" "),
        goal: { to: "event", at },
        bytes: table.sizeOf(at),
      }
    }
    if (!asks) return [row(number)]
    const found = table.select(filter)
    const goal: Goal = { to: "tab", tab: "events", search: wanted }
    const all: Entry = { kind: "events", name: `All ${formatCount(found.length)} events`, detail: wanted, goal, bytes: null }
    return [...Array.from(found.subarray(0, MOST_ALIKE), row), ...(found.length > MOST_ALIKE ? [all] : [])]
  }

  /** The allocations live at an address, or at one that begins like it. */
  private addressesFor(wanted: string): Entry[] {
    if (!/^0x[0-9a-f]+$/i.test(wanted)) return []
    const { device, sites } = this.history
    const { height } = stripsOf(device, this.curve)
    const found = searchLive(this.live, device, sites, wanted)
    const bytes = found.reduce((sum, i) => sum + height[i], 0)
    const goal: Goal = { to: "tab", tab: "live", search: wanted }
    return [{ kind: "address", name: wanted, detail: plural(found.length, "live allocation"), goal, bytes }]
  }
}

/** The same among a few things that do not belong to one recording. */
export function findAmong(typed: string, entries: Entry[]): Entry[] {
  const wanted = typed.trim()
  if (!wanted) return entries.filter(({ kind }) => kind !== "action")
  return bestOf(
    wanted,
    entries.map((entry) => searchable(entry)),
  )
}

function bestOf(wanted: string, all: Known[]): Entry[] {
  const rows: { entry: Known; fits: number }[] = []
  if (/^\/.+\/$|[*?]/.test(wanted)) {
    const test = textTest(wanted)
    for (const entry of all) if (test(entry.name) || test(entry.detail)) rows.push({ entry, fits: WORD })
  } else {
    const parts = wanted.toLowerCase().split(/\s+/)
    const look = (fitting: typeof fitOf) => {
      for (const entry of all) {
        const fits = fitting(parts, entry)
        if (fits) rows.push({ entry, fits: fits + Number(entry.kind === "tab" || entry.kind === "device") })
      }
    }
    look(fitOf)
    if (rows.length < MOST_ROWS) look((of, entry) => (fitOf(of, entry) ? 0 : fitOf(of, entry, true)))
  }
  rows.sort((a, b) => b.fits - a.fits || byBytes(a.entry, b.entry) || a.entry.low.length - b.entry.low.length)
  return rows.slice(0, MOST_ROWS).flatMap(({ entry }) => entry.alike ?? entry)
}

function searchable(entry: Entry, also = ""): Known {
  const [low, rest] = [entry.name, `${entry.kind} ${entry.detail} ${also}`].map((text) => text.slice(0, MOST_CHARACTERS).toLowerCase())
  return { ...entry, low, rest }
}

function byBytes(a: Entry, b: Entry): number {
  return (b.bytes ?? 0) - (a.bytes ?? 0)
}

/** How well an entry fits all of some parts in lower case; 0 if it does not. `short`: parts may be made of beginnings of words. */
function fitOf(parts: string[], { name, low, rest }: Known, short = false): number {
  let sum = 0
  for (const part of parts) {
    let at = low.indexOf(part)
    let fits = 0
    if (low === part) fits = EQUAL
    else if (at === 0) fits = BEGINS
    else if (at > 0) {
      while (at > 0 && !beginsWord(name, at)) at = low.indexOf(part, at + 1)
      fits = at > 0 ? WORD : INSIDE
    } else if (rest.includes(part)) fits = BESIDE
    else if (short && isAbbreviated(part, name, low)) fits = ABBREVIATED
    if (!fits) return 0
    sum += fits
  }
  return sum / parts.length
}

function beginsWord(name: string, at: number): boolean {
  return at === 0 || !/[a-z0-9]/i.test(name[at - 1]) || (/[a-z]/.test(name[at - 1]) && /[A-Z]/.test(name[at]))
}

/** Whether a text is made of beginnings of a name's words, in their order: `trst` of `train_step`. */
function isAbbreviated(part: string, name: string, low: string): boolean {
  let at = -1
  for (const letter of part) {
    if (at >= 0 && low[at + 1] === letter) at++
    else {
      do at = low.indexOf(letter, at + 1)
      while (at >= 0 && !beginsWord(name, at))
      if (at < 0) return false
    }
  }
  return true
}
