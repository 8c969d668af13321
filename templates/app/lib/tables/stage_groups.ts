/** Repeated stages (same name, same parents) as one group: their number, and the spread of their figures. */

import type { StageSummary } from "../data/payload"
import { medianOf } from "../data/places"

/** The minimum, median and maximum of a figure over the stages that have it. */
export interface Spread {
  /** Of the stages that have it. */
  count: number
  min: number
  median: number
  max: number
}

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

/** Null when no value is known. */
function spread(values: (number | null)[]): Spread | null {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b)
  if (!known.length) return null
  return { count: known.length, min: known[0], median: medianOf(known), max: known[known.length - 1] }
}
