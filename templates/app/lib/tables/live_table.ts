/** The table of what is live: its order and its search. */

import type { Device } from "../data/device"
import { formatAddress, formatBytes } from "../text/format"
import type { Sites } from "../data/sites"
import { textTest } from "./search"

export type LiveColumn = "block" | "requested" | "age" | "site" | "address" | "stream" | "pool"

/** Orders allocations by a column, in place: numbers largest first, ages oldest first, names and addresses upwards. */
export function sortLive(live: Int32Array, device: Device, sites: Sites, by: LiveColumn, reversed: boolean): Int32Array {
  const { block, requested, allocEvent, addr, addrValues, stream, streamValues, pool } = device
  const order = new Int32Array(sites.rows.length)
  if (by === "site") {
    const names = sites.rows.map((site, row) => ({ row, text: `${site.name} ${site.place}` }))
    names.sort((a, b) => a.text.localeCompare(b.text)).forEach(({ row }, place) => (order[row] = place))
  }
  const compare = {
    block: (a: number, b: number) => block[b] - block[a],
    requested: (a: number, b: number) => requested[b] - requested[a],
    age: (a: number, b: number) => allocEvent[a] - allocEvent[b],
    site: (a: number, b: number) => order[sites.ofAllocation[a]] - order[sites.ofAllocation[b]],
    address: (a: number, b: number) => addrValues[addr[a]] - addrValues[addr[b]],
    stream: (a: number, b: number) => streamValues[stream[a]] - streamValues[stream[b]],
    pool: (a: number, b: number) => pool[a] - pool[b],
  }[by]
  const sign = reversed ? -1 : 1
  return live.sort((a, b) => sign * compare(a, b) || a - b)
}

/** Allocations whose call site, size or address matches; sizes as shown (`2.00 MiB`) or exact. Throws for a bad expression. */
export function searchLive(live: Int32Array, device: Device, sites: Sites, typed: string): Int32Array {
  const wanted = typed.trim()
  if (!wanted) return live
  const test = textTest(wanted)
  const ofSite = sites.rows.map((site) => test(site.fullName) || test(site.file) || (site.place !== "" && test(site.place)))
  const sizes = new Map<number, boolean>()
  const ofSize = (bytes: number) => {
    let fits = sizes.get(bytes)
    if (fits === undefined) {
      fits = test(formatBytes(bytes)) || wanted.replaceAll(",", "") === String(bytes)
      sizes.set(bytes, fits)
    }
    return fits
  }
  return live.filter(
    (i) =>
      ofSite[sites.ofAllocation[i]] ||
      ofSize(device.block[i]) ||
      ofSize(device.requested[i]) ||
      test(formatAddress(device.addrValues[device.addr[i]])),
  )
}

/** Block and requested bytes of some allocations. */
export function addUp(live: Int32Array, device: Device): { block: number; requested: number } {
  let [block, requested] = [0, 0]
  for (const i of live) {
    block += device.block[i]
    requested += device.requested[i]
  }
  return { block, requested }
}
