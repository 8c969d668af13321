/** Stages as bands: which of them a window shows, and where. */

import type { StageSummary } from "./payload"
import type { Window } from "./window"

export interface Band {
  stage: number
  row: number
  /** Pixels from the plot's left edge, cut to the plot. */
  left: number
  right: number
}

export const MOST_ROWS = 5

/** Rows that stages need, one per depth. */
export function bandRows(stages: StageSummary[]): number {
  let deepest = -1
  for (const stage of stages) if (stage.depth > deepest) deepest = stage.depth
  return Math.min(deepest + 1, MOST_ROWS)
}

/** The visible bands; of those narrower than a pixel, one per pixel and row. */
export function bandsIn(stages: StageSummary[], window: Window, width: number): Band[] {
  const perStep = width / (window.x1 - window.x0)
  const lastPixel = new Map<number, number>()
  const bands: Band[] = []
  stages.forEach((stage, index) => {
    if (stage.depth >= MOST_ROWS) return
    const left = Math.max((stage.start_step - window.x0) * perStep, 0)
    const right = Math.min((Math.max(stage.end_step, stage.start_step) - window.x0) * perStep, width)
    if (right < 0 || left > width || right < left) return
    if (right - left < 1) {
      if (lastPixel.get(stage.depth) === Math.floor(left)) return
      lastPixel.set(stage.depth, Math.floor(left))
    }
    bands.push({ stage: index, row: stage.depth, left, right: Math.max(right, left + 1) })
  })
  return bands
}
