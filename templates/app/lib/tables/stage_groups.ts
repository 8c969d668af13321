/** Repeated stages (same name, same parents) as one group: their number, and the spread of their figures; and what stages and steps are of a part of the allocations. */

import type { StageSummary } from "../data/payload"
import type { History } from "../data/history"
import { medianOf } from "../data/places"
import type { Steps } from "../data/steps"

export type Spread = NonNullable<ReturnType<typeof spread>>

export interface StageGroup {
  /** The stages' common name, numbers after `#` left out: `ProfilerStep#*`. */
  name: string
  depth: number
  /** Positions among the device's stages, in order. */
  stages: number[]
  children: StageGroup[]
  /** Null for a figure that no stage has. */
  spread: Record<StageFigure, Spread | null>
}

export const STAGE_FIGURES = ["start_bytes", "peak_bytes", "end_bytes", "change", "allocations", "allocated_bytes"] as const
export type StageFigure = (typeof STAGE_FIGURES)[number]

/** The name of a repeated stage, without numbers after `#`. */
export function commonName(name: string): string {
  return name.replace(/#\d+/g, "#*")
}

/** The innermost stage of each event, or -1. */
export function stageAtEvents(stages: StageSummary[], events: number): Int32Array {
  const at = new Int32Array(events).fill(-1)
  const order = stages.map((_, k) => k).sort((a, b) => stages[a].depth - stages[b].depth || a - b)
  for (const k of order) at.fill(k, Math.max(stages[k].start_event, 0), Math.max(stages[k].end_event, 0))
  return at
}

/** The innermost stage of one event, or -1. */
export function stageAt(stages: StageSummary[], event: number): number {
  let found = -1
  stages.forEach(({ start_event, end_event, depth }, k) => {
    if (event >= 0 && start_event <= event && event < end_event && (found < 0 || depth >= stages[found].depth)) found = k
  })
  return found
}

/** Groups stages by their name and that of every stage around them; groups in order of their first stage. */
export function groupStages(stages: StageSummary[]): StageGroup[] {
  const tops: StageGroup[] = []
  const groupOf: StageGroup[] = []
  const known = new Map<StageGroup | null, Map<string, StageGroup>>()
  stages.forEach((stage, index) => {
    const parent = stage.parent === null ? null : groupOf[stage.parent]
    const name = commonName(stage.name)
    const siblings = known.get(parent) ?? new Map<string, StageGroup>()
    known.set(parent, siblings)
    let group = siblings.get(name)
    if (!group) {
      group = { name, depth: parent ? parent.depth + 1 : 0, stages: [], children: [], spread: {} as StageGroup["spread"] }
      siblings.set(name, group)
      ;(parent ? parent.children : tops).push(group)
    }
    group.stages.push(index)
    groupOf[index] = group
  })
  const finish = (group: StageGroup) => {
    if (group.stages.length === 1) group.name = stages[group.stages[0]].name
    for (const figure of STAGE_FIGURES) group.spread[figure] = spread(group.stages.map((index) => stages[index][figure]))
    group.children.forEach(finish)
  }
  tops.forEach(finish)
  return tops
}

/** The minimum, median and maximum over the values that are known, and their number; null when none is. */
function spread(values: (number | null)[]) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b)
  if (!known.length) return null
  return { count: known.length, min: known[0], median: medianOf(known), max: known[known.length - 1] }
}

/** The stages of the allocations that count; figures that are not known stay so. As in `figures/uses.py`. */
export function stagesOf(history: History): StageSummary[] {
  const { device, curves } = history
  const { stages } = device.summary
  if (!history.partial) return stages
  const curve = curves.allocated
  const { allocEvent, freeRequestedEvent, block, events } = device
  /** Allocations and bytes made before each event. */
  const [made, bytes] = [new Int32Array(events + 1), new Float64Array(events + 1)]
  for (let i = 0; i < allocEvent.length; i++) {
    if (allocEvent[i] < 0 || freeRequestedEvent[i] <= allocEvent[i]) continue
    made[allocEvent[i] + 1]++
    bytes[allocEvent[i] + 1] += block[i]
  }
  for (let s = 1; s <= events; s++) {
    made[s] += made[s - 1]
    bytes[s] += bytes[s - 1]
  }
  return stages.map((stage) => {
    const [first, end] = [Math.max(stage.start_event, 0), Math.max(stage.end_event, 0)]
    const last = Math.max(first, end)
    const peak = curve.firstMax(first, last + 1)
    const known = (was: number | null, value: number) => (was === null ? null : value)
    return {
      ...stage,
      start_bytes: known(stage.start_bytes, curve.at(first)),
      peak_bytes: known(stage.peak_bytes, curve.at(peak)),
      peak_event: known(stage.peak_event, peak - 1),
      end_bytes: known(stage.end_bytes, curve.at(last)),
      change: known(stage.change, curve.at(last) - curve.at(first)),
      allocations: known(stage.allocations, made[last] - made[first]),
      allocated_bytes: known(stage.allocated_bytes, bytes[last] - bytes[first]),
    }
  })
}

/** The steps of the allocations that count. */
export function stepsOf({ device, curves, partial }: History): Steps {
  const steps = device.steps!
  if (!partial) return steps
  const { bounds } = steps
  const count = steps.kind.length
  const made = { kept: new Float64Array(count), allocations: new Int32Array(count), allocated: new Float64Array(count) }
  const { allocEvent, freeRequestedEvent, block } = device
  for (let i = 0, step = -1; i < allocEvent.length; i++) {
    while (step + 1 < count && allocEvent[i] >= bounds[step + 1]) step++
    if (step < 0 || allocEvent[i] >= bounds[count] || freeRequestedEvent[i] <= allocEvent[i]) continue
    made.allocations[step]++
    made.allocated[step] += block[i]
    if (freeRequestedEvent[i] >= bounds[step + 1]) made.kept[step] += block[i]
  }
  const peak = curves.allocated.firstMax(0, curves.allocated.length) - 1
  const at = bounds.findLastIndex((event) => event <= peak)
  return { ...steps, ...made, peak: at < count ? at : -1 }
}
