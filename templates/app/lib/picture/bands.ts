/** Stages as bands: which of them a window shows, and where. */

import type { StageSummary } from "../data/payload"
import type { Scale } from "../data/scale"
import type { Window } from "./window"

export interface Band {
  stage: number
  row: number
  /** Pixels from the plot's left edge, cut to the plot. */
  left: number
  right: number
}

/** Deeper stages share the last row, the innermost in front. */
export const MOST_ROWS = 5

/** Rows that stages need, one per depth. */
export function bandRows(stages: StageSummary[]): number {
  let deepest = -1
  for (const stage of stages) if (stage.depth > deepest) deepest = stage.depth
  return Math.min(deepest + 1, MOST_ROWS)
}

/** The visible bands, outer before inner; of those narrower than a pixel, one per pixel and row. */
export function bandsIn(stages: StageSummary[], scale: Scale, window: Window, width: number): Band[] {
  const perUnit = width / (window.x1 - window.x0)
  const lastPixel = new Map<number, number>()
  const bands: Band[] = []
  stages.forEach((stage, index) => {
    const left = Math.max((scale.xOf(stage.start_event) - window.x0) * perUnit, 0)
    const right = Math.min((scale.xOf(Math.max(stage.end_event, stage.start_event)) - window.x0) * perUnit, width)
    if (right < 0 || left > width || right < left) return
    if (right - left < 1) {
      if (lastPixel.get(stage.depth) === Math.floor(left)) return
      lastPixel.set(stage.depth, Math.floor(left))
    }
    bands.push({ stage: index, row: Math.min(stage.depth, MOST_ROWS - 1), left, right: Math.max(right, left + 1) })
  })
  return bands.sort((a, b) => stages[a.stage].depth - stages[b.stage].depth || a.stage - b.stage)
}

/** The names of a stage and those around it, outermost first. */
export function stagePath(stages: StageSummary[], stage: number): string[] {
  const names: string[] = []
  for (let at: number | null = stage; at !== null && at >= 0; at = stages[at].parent) names.unshift(stages[at].name)
  return names
}
