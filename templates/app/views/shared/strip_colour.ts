/** The colour that an allocation's strip has in the timeline: wherever it is shown, it looks alike. */

import { cssColour, groupColours, type Rgb } from "../../lib/picture/colours"
import { isDark } from "../../lib/picture/theme"
import { groupBy } from "../../lib/tables/grouping"
import type { Store } from "../../store"
import { swatch } from "./dom"

export function stripColour({ history, state }: Store, allocation: number): Rgb {
  const grouping = groupBy(history, state.colouring)
  return groupColours(grouping, isDark())[grouping.ofAllocation[allocation]]
}

/** A strip's colour, where it is named. */
export function stripSwatch(store: Store, allocation: number): HTMLElement {
  return swatch(cssColour(stripColour(store, allocation)))
}
