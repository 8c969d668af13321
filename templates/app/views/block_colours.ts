/** The timeline's colours for blocks, so that a block and its strip look alike. */

import { cssColour, siteColours } from "../lib/colours"
import type { Rgb } from "../lib/segment_flow"
import { isDark } from "../lib/theme"
import type { Store } from "../store"

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
    const { history } = this.store
    const key = String(isDark())
    if (key !== this.key) this.bytes = siteColours(history.sites.rows, isDark())
    this.key = key
    return history.sites.ofAllocation[allocation]
  }
}
