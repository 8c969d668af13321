/** The timeline's colours for blocks, so that a block and its strip look alike. */

import { cssColour, groupColours, type Rgb } from "../../lib/picture/colours"
import { groupBy } from "../../lib/tables/grouping"
import { isDark } from "../../lib/picture/theme"
import type { Store } from "../../store"

export class BlockColours {
  private key = ""
  private bytes: Uint8Array = new Uint8Array(0)

  constructor(private readonly store: Store) {}

  of(allocation: number): Rgb {
    const at = this.row(allocation) * 4
    return [this.bytes[at], this.bytes[at + 1], this.bytes[at + 2]]
  }

  css(allocation: number): string {
    const row = this.row(allocation) // which may choose other colours
    return cssColour(this.bytes, row)
  }

  private row(allocation: number): number {
    const { history, state } = this.store
    const grouping = groupBy(history, state.colouring)
    const key = `${grouping.colouring} ${isDark()}`
    if (key !== this.key) this.bytes = groupColours(grouping, isDark())
    this.key = key
    return grouping.ofAllocation[allocation]
  }
}
