/** Finds what is live after an event without looking at every allocation of the recording. */

import type { Curve, Ints } from "./curves"
import { type Device, stripsOf } from "./device"
import { oncePer } from "./known"
import { firstPlace } from "./places"

/** Allocations in a block, and blocks in a group. */
const BLOCK = 64
const GROUP = 64

/** The last death in each block and group of allocations, which stand in birth order.
 *
 * A block whose last death has passed holds nothing live. In a long training run that is nearly every block, so the
 * time for a moment is about proportional to what is live then; the memory is one number per block. */
export class Lives {
  private readonly ofBlock: Int32Array
  private readonly ofGroup: Int32Array
  /** How many blocks have their last death computed; they are added when first needed. */
  private known = 0

  constructor(
    private readonly birth: Ints,
    private readonly death: Ints,
  ) {
    this.ofBlock = new Int32Array(Math.ceil(birth.length / BLOCK))
    this.ofGroup = new Int32Array(Math.ceil(this.ofBlock.length / GROUP))
  }

  private know(blocks: number): void {
    const { birth, death, ofBlock, ofGroup } = this
    for (let b = this.known; b < blocks; b++) {
      let last = -1
      const end = Math.min((b + 1) * BLOCK, birth.length)
      for (let i = b * BLOCK; i < end; i++) if (death[i] > last) last = death[i]
      ofBlock[b] = last
      const g = Math.floor(b / GROUP)
      if (last > ofGroup[g]) ofGroup[g] = last
    }
    this.known = Math.max(this.known, blocks)
  }

  /** How many allocations are born by an event. */
  bornBy(event: number): number {
    return firstPlace(0, this.birth.length, (i) => this.birth[i] > event)
  }

  /** Ids of those live after an event, in birth order; `death` may be another column with no later deaths. */
  at(event: number, death = this.death): Int32Array {
    const { ofBlock, ofGroup } = this
    const born = this.bornBy(event)
    this.know(Math.min(Math.ceil(born / BLOCK / GROUP) * GROUP, ofBlock.length)) // skip the entire group
    let found = new Int32Array(256)
    let count = 0
    for (let b = 0; b * BLOCK < born; b++) {
      if (b % GROUP === 0 && ofGroup[b / GROUP] <= event) b += GROUP - 1
      else if (ofBlock[b] > event) {
        if (count + BLOCK > found.length) {
          const more = new Int32Array(found.length * 2)
          more.set(found)
          found = more
        }
        const end = Math.min((b + 1) * BLOCK, born)
        for (let i = b * BLOCK; i < end; i++) if (death[i] > event) found[count++] = i
      }
    }
    return found.slice(0, count)
  }
}

/** The lives of a device's allocations until free_completed; computed once. */
export const livesOf = oncePer(({ allocEvent, freeEvent }: Device) => new Lives(allocEvent, freeEvent))

/** Ids of the allocations live after an event in one curve, in birth order. */
export function liveAt(device: Device, curve: Curve, event: number): Int32Array {
  return livesOf(device).at(event, stripsOf(device, curve).death) // a free is requested before it is completed
}
