/** What a page does not draw one by one: its sum after every event, and a row that stands for it.
 *
 * The row is the device's last and never live itself, so that loops over allocations skip it; sums of
 * what is live have to add `restAt`. As in `model/history.py`. */

import { type Curve, type Ints, unitOf } from "./curves"
import type { Device, Rest } from "./device"
import type { DeviceHeader, Payload } from "./payload"

/** The name of the row where allocations are named. */
export const NOT_DRAWN = "not drawn one by one"

/** Bytes and allocations that one curve counts after an event. */
export function restAt(rest: Rest | null, curve: Curve, event: number): { bytes: number; count: number } {
  return rest ? { bytes: rest[curve][event + 1], count: rest.count[curve][event + 1] } : { bytes: 0, count: 0 }
}

/** The device with its rest, if the page has one. */
export function withRest(device: Device, payload: Payload, header: DeviceHeader): Device {
  const { columns } = header
  const cut = device.summary.cut
  if (!columns.rest_event || !cut) return device
  const events = payload.ints(columns.rest_event)
  const over = (name: string) => spread(device.events, events, payload.floats(columns[name]))
  const row = device.count
  const floats = (column: Float64Array) => {
    const out = new Float64Array(row + 1)
    out.set(column)
    return out
  }
  const [requested, allocated, active] = ["requested", "allocated", "active"].map((name) => over(`rest_${name}`))
  const unit = (curve: Curve, rest: Float64Array, ofEach: Float64Array) => unitOf(device.summary.peaks[curve].bytes, rest, ofEach)
  return {
    ...device,
    count: row + 1,
    unit: { allocated: unit("allocated", allocated, device.block), requested: unit("requested", requested, device.requested) },
    requested: floats(device.requested),
    block: floats(device.block),
    blockMax: floats(device.blockMax),
    allocEvent: withRow(device.allocEvent, device.events),
    freeRequestedEvent: withRow(device.freeRequestedEvent, device.events),
    freeEvent: withRow(device.freeEvent, device.events),
    stack: withRow(device.stack, -1),
    role: withRow(device.role, device.role[0] ?? -1),
    missing: withRow(device.missing, device.missingReasons.length),
    missingReasons: [...device.missingReasons, NOT_DRAWN],
    rest: {
      row,
      requested,
      allocated,
      active,
      count: { allocated: over("rest_count_allocated"), requested: over("rest_count_requested") },
      ever: { count: cut.not_drawn, requested: cut.not_drawn_requested_bytes, allocated: cut.not_drawn_bytes },
      rows: payload.ints(columns.row),
      versions: withRow(payload.ints(columns.version), 0),
      window: header.window ?? null,
    },
  }
}

/** A column of ids, with one more for the row. */
export function withRow(column: Ints, value: number): Int32Array {
  const out = new Int32Array(column.length + 1)
  out.set(column)
  out[column.length] = value
  return out
}

/** An allocation's row among all of the recording, as used in links and bundles. */
export function recordedRow({ rest }: Device, allocation: number): number {
  return rest ? rest.rows[allocation] : allocation
}

/** The reverse of `recordedRow`: -1 if the row is not drawn or does not exist. */
export function drawnRow({ rest, count }: Device, row: number): number {
  if (!rest) return row >= 0 && row < count ? row : -1
  return rest.rows.indexOf(row)
}

/** A value given at its changes, spread over every event (element s + 1 for event s). */
function spread(events: number, changes: Int32Array, values: Float64Array): Float64Array {
  const out = new Float64Array(events + 1)
  for (let k = 0; k < changes.length; k++) {
    out.fill(values[k], changes[k] + 1, k + 1 < changes.length ? changes[k + 1] + 1 : out.length)
  }
  return out
}
