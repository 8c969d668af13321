/** Fragmentation after every event: the inactive bytes of segments that hold a live block.
 *
 * As in `figures/segments.py`, but event by event: what takes array tricks there is a plain loop here. */

import { type Device, NO_ID } from "./device"
import { byEvent, firstPlace } from "./places"

/** The live allocations in one stretch of memory, as a linked list; its segment may change. */
interface Bucket {
  segment: number
  low: number
  high: number
  used: number
  count: number
  head: number
}

/** Bytes after each event; element s + 1 belongs to event s. -1 where reserved memory is not known.
 *
 * With a pause after each number of events, to keep the page responsive: a long recording takes a while. */
export function* fragmentationInParts(device: Device, events: number): Generator<void, Float64Array> {
  const out = new Float64Array(device.events + 1)
  const sweep = new Sweep(device)
  const known = device.summary.reserved_from ?? device.events
  for (let event = -1; event < device.events; event++) {
    sweep.go(event)
    out[event + 1] = event < known ? -1 : sweep.wasted
    if ((event + 2) % events === 0) yield
  }
  return out
}

class Sweep {
  /** Inactive bytes in segments that hold a live block. */
  wasted = 0
  private readonly there: Bucket[] = [] // by address
  private readonly bucketOf: Bucket[] = []
  private readonly next: Int32Array
  private readonly previous: Int32Array
  private readonly ends: Int32Array
  private readonly deaths: Int32Array
  private begun = 0
  private ended = 0
  private born = 0
  private died = 0
  /** Live allocations in no known segment: some of its events are missing. */
  private readonly outside: Bucket = { segment: NO_ID, low: 0, high: 0, used: 0, count: 0, head: NO_ID }

  constructor(private readonly device: Device) {
    this.next = new Int32Array(device.count)
    this.previous = new Int32Array(device.count)
    this.ends = byEvent(device.segments.end, device.events)
    this.deaths = byEvent(device.freeEvent, device.events)
  }

  go(event: number): void {
    const { device, ends, deaths } = this
    const { segments } = device
    const gone: Bucket[] = []
    for (; this.ended < ends.length && segments.end[ends[this.ended]] === event; this.ended++) gone.push(this.take(ends[this.ended]))
    const made: Bucket[] = []
    for (; this.begun < segments.count && segments.start[this.begun] === event; this.begun++) made.push(this.put(this.begun))
    if (gone.length || made.length) this.rehouse(gone, made)
    for (; this.died < deaths.length && device.freeEvent[deaths[this.died]] <= event; this.died++) {
      const id = deaths[this.died]
      if (!this.bucketOf[id]) continue
      this.remove(id)
    }
    for (; this.born < device.count && device.allocEvent[this.born] === event; this.born++) {
      if (device.freeEvent[this.born] <= event) continue
      this.add(this.born, this.around(this.address(this.born)))
    }
  }

  private address(id: number): number {
    return this.device.addrValues[this.device.addr[id]]
  }

  /** The place of the first segment that begins above an address. */
  private above(address: number): number {
    return firstPlace(0, this.there.length, (place) => this.there[place].low > address)
  }

  private around(address: number): Bucket {
    const bucket = this.there[this.above(address) - 1]
    return bucket && address < bucket.high ? bucket : this.outside
  }

  private take(segment: number): Bucket {
    const place = this.above(this.device.segments.address[segment]) - 1
    const [bucket] = this.there.splice(place, 1)
    this.wasted -= waste(bucket)
    return bucket
  }

  private put(segment: number): Bucket {
    const low = this.device.segments.address[segment]
    const bucket = { segment, low, high: low + this.device.segments.size[segment], used: 0, count: 0, head: NO_ID }
    this.there.splice(this.above(low), 0, bucket)
    return bucket
  }

  /** Moves the blocks of segments that changed to the new segments. */
  private rehouse(gone: Bucket[], made: Bucket[]): void {
    for (const old of gone) {
      const whole = made.find((bucket) => bucket.low <= old.low && old.high <= bucket.high)
      if (whole && whole.count <= old.count) {
        // The larger list stays as it is, and gets the new segment.
        const place = this.above(whole.low) - 1
        const smaller = { ...whole }
        Object.assign(old, { segment: whole.segment, low: whole.low, high: whole.high })
        this.there[place] = made[made.indexOf(whole)] = old
        this.wasted += waste(old)
        this.wasted -= waste(smaller)
        this.move(smaller, whole)
      } else this.move(old, old)
    }
    if (this.outside.count) this.move({ ...this.outside }, this.outside)
  }

  /** Moves every allocation of a list, owned by `owner`, to the list of its current segment. */
  private move(list: Bucket, owner: Bucket): void {
    let id = list.head
    owner.used = owner.count = 0
    owner.head = NO_ID
    while (id !== NO_ID) {
      const following = this.next[id]
      this.add(id, this.around(this.address(id)))
      id = following
    }
  }

  private add(id: number, bucket: Bucket): void {
    this.wasted -= waste(bucket)
    bucket.used += this.device.block[id]
    bucket.count++
    this.wasted += waste(bucket)
    this.next[id] = bucket.head
    this.previous[id] = NO_ID
    if (bucket.head !== NO_ID) this.previous[bucket.head] = id
    bucket.head = id
    this.bucketOf[id] = bucket
  }

  private remove(id: number): void {
    const bucket = this.bucketOf[id]
    this.wasted -= waste(bucket)
    bucket.used -= this.device.block[id]
    bucket.count--
    this.wasted += waste(bucket)
    const [before, after] = [this.previous[id], this.next[id]]
    if (before === NO_ID) bucket.head = after
    else this.next[before] = after
    if (after !== NO_ID) this.previous[after] = before
  }
}

function waste(bucket: Bucket): number {
  return bucket.segment !== NO_ID && bucket.used > 0 ? bucket.high - bucket.low - bucket.used : 0
}
