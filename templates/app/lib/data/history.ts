/** One device with what the views need most often: its curves, sites and times. */

import { type Device, type Stacks, stripsOf, withoutRows } from "./device"
import { type Bytes, Changes, type Curve, curveOf } from "./curves"
import { once } from "./known"
import { livesOf } from "./lives"
import type { OomSummary } from "./payload"
import { type Axis, type Scale, EventScale, TimeScale } from "./scale"
import { groupBySite, type Sites } from "./sites"

/** A failed request for memory. */
export interface Oom extends OomSummary {
  /** Stack id, or -1. */
  stack: number
}

/** If a failed request is more than this many times as high as everything else, the view does not extend to it. */
const DWARFING = 1.6

export class History {
  readonly curves: Record<Curve | "reserved", Bytes>
  readonly peakEvent: Record<Curve, number>
  readonly ooms: Oom[]
  private readonly scales: Partial<Record<Axis, Scale>> = {}
  private readonly bySite = once(() => groupBySite(this.device, this.stacks, this.peakEvent.allocated))

  /** `whole`: what this is a part of; see `without`. `least`: the microseconds that its time axis has room for. */
  constructor(
    readonly device: Device,
    readonly stacks: Stacks,
    private readonly whole: History | null = null,
    private readonly least = 0,
  ) {
    this.curves = {
      allocated: curveOf(stripsOf(device, "allocated")),
      requested: curveOf(stripsOf(device, "requested")),
      reserved: whole?.curves.reserved ?? new Changes(device.reservedEvent, device.reservedBytes, device.events + 1),
    }
    // Without a history only the state at the end is known.
    const peak = (curve: Curve) => (device.summary.recorded ? this.curves[curve].firstMax(0, device.events + 1) : device.events) - 1
    this.peakEvent = { allocated: peak("allocated"), requested: peak("requested") }
    // The summary's failed requests are the device's oom events, in order.
    const action = device.actions.indexOf("oom")
    let event = -1
    this.ooms = device.summary.ooms.map((oom) => {
      event = device.eventAction.indexOf(action, event + 1)
      return { ...oom, stack: device.eventStack[event] ?? -1 }
    })
  }

  /** The same recording with some allocations left out: these are never live. `hidden`: 1 for each of them.
   *
   * Rows, call sites and reserved bytes are those of the whole. */
  without(hidden: Uint8Array): History {
    return new History(withoutRows(this.device, hidden), this.stacks, this)
  }

  /** The call sites: found when first asked for, which a first picture by role does not. */
  get sites(): Sites {
    return this.all.bySite()
  }

  /** Whether some allocations are left out. */
  get partial(): boolean {
    return this.whole !== null
  }

  /** The history of all allocations. */
  get all(): History {
    return this.whole ?? this
  }

  /** Bytes after an event. */
  at(curve: Curve | "active" | "reserved", event: number): number {
    const known = Math.min(Math.max(event, -1), this.device.events - 1)
    if (curve !== "active") return this.curves[curve].at(known + 1)
    // Asked for one moment at a time, it needs no curve of its own.
    return livesOf(this.device)
      .at(known)
      .reduce((sum, i) => sum + this.device.block[i], this.device.rest?.active[known + 1] ?? 0)
  }

  /** The largest value of any curve. */
  get highest(): number {
    const all = Object.values(this.curves)
    return Math.max(0, this.device.summary.peaks.active.bytes, ...all.map((curve) => curve.at(curve.firstMax(0, curve.length))))
  }

  /** The memory of the card that was asked about, or else of the device; null if not recorded. */
  get memory(): number | null {
    return this.device.summary.card?.bytes ?? this.device.summary.capacity
  }

  /** The highest value to draw, including the device's capacity and failed requests, unless these dwarf the rest.
   *
   * Of a part of the allocations only their own curves: nothing else is comparable with them. */
  get ceiling(): number {
    if (this.partial) return Math.max(...(["allocated", "requested"] as const).map((curve) => this.at(curve, this.peakEvent[curve])))
    const { highest } = this
    const wanted = this.ooms.flatMap(({ event, size, reserved, device_free }) => [
      this.at("allocated", event) + size,
      (reserved ?? 0) + device_free,
    ])
    if (this.memory !== null) wanted.push(this.memory)
    return Math.max(highest, ...wanted.filter((bytes) => bytes <= highest * DWARFING))
  }

  get hasReserved(): boolean {
    return this.device.reservedEvent.length > 0
  }

  /** The first event from which reserved memory is known; -1 is the start. */
  get reservedFrom(): number {
    return this.device.summary.reserved_from ?? -1
  }

  get hasTimes(): boolean {
    return this.device.timed
  }

  /** The scale of an axis; by the clock only if there are times. */
  scale(axis: Axis): Scale {
    return (this.scales[axis] ??= axis === "time" ? new TimeScale(this.device.eventTime, this.least) : new EventScale(this.device.events))
  }

  /** Microseconds since the first event, or null where the recording has no times. */
  timeOf(event: number): number | null {
    const { eventTime } = this.device
    if (event < 0 || event >= eventTime.length) return null
    return eventTime[event] - eventTime[0]
  }
}
