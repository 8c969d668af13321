/** The table of what is live: its order, its search, and which rows are equal. */

import type { Device } from "../data/device"
import { formatAddress, formatBytes } from "../text/format"
import type { Sites } from "../data/sites"
import { textTest } from "./search"

export type LiveColumn = "block" | "requested" | "role" | "age" | "lifetime" | "freed" | "site" | "address" | "stream" | "pool"

/** How many events an allocation lived, as far as the recording goes. */
export function lifetimeOf({ allocEvent, freeEvent }: Device, i: number): number {
  return freeEvent[i] - Math.max(allocEvent[i], 0)
}

/** Orders allocations by a column, in place: numbers largest first, ages oldest first, names, addresses and frees upwards. */
export function sortLive(live: Int32Array, device: Device, sites: Sites, by: LiveColumn, reversed: boolean): Int32Array {
  const { block, requested, allocEvent, freeEvent, addr, addrValues, stream, streamValues, pool, role, roles } = device
  const order = new Int32Array(sites.rows.length)
  if (by === "site") {
    const names = sites.rows.map((site, row) => ({ row, text: `${site.name} ${site.place}` }))
    names.sort((a, b) => a.text.localeCompare(b.text)).forEach(({ row }, place) => (order[row] = place))
  }
  const compare = {
    block: (a: number, b: number) => block[b] - block[a],
    requested: (a: number, b: number) => requested[b] - requested[a],
    role: (a: number, b: number) => roles[role[a]][0].localeCompare(roles[role[b]][0]),
    age: (a: number, b: number) => allocEvent[a] - allocEvent[b],
    lifetime: (a: number, b: number) => lifetimeOf(device, b) - lifetimeOf(device, a),
    freed: (a: number, b: number) => freeEvent[a] - freeEvent[b],
    site: (a: number, b: number) => order[sites.ofAllocation[a]] - order[sites.ofAllocation[b]],
    address: (a: number, b: number) => addrValues[addr[a]] - addrValues[addr[b]],
    stream: (a: number, b: number) => streamValues[stream[a]] - streamValues[stream[b]],
    pool: (a: number, b: number) => pool[a] - pool[b],
  }[by]
  const sign = reversed ? -1 : 1
  return live.sort((a, b) => sign * compare(a, b) || a - b)
}

/** What is the same in equal rows: sizes, role, call site, stream and pool. */
export function keyOf(device: Device, sites: Sites, i: number): string {
  const { block, blockMax, requested, role, roles, stream, pool } = device
  return [block[i], blockMax[i], requested[i], roles[role[i]][0], sites.ofAllocation[i], stream[i], pool[i]].join()
}

/** Rows of equal allocations, each in the order given: by their bytes in all where that is the order, else by their first ones. */
export function groupEqual(live: Int32Array, device: Device, sites: Sites, by: LiveColumn, reversed: boolean): number[][] {
  const groups = new Map<string, number[]>()
  for (const i of live) {
    const key = keyOf(device, sites, i)
    const group = groups.get(key)
    if (group) group.push(i)
    else groups.set(key, [i])
  }
  const rows = [...groups.values()]
  if (by !== "block" && by !== "requested") return rows
  const bytes = (row: number[]) => device[by][row[0]] * row.length
  return rows.sort((a, b) => (reversed ? bytes(a) - bytes(b) : bytes(b) - bytes(a)))
}

/** 1 for each allocation of the entire recording that is equal to one. */
export function rowsEqual(device: Device, sites: Sites, allocation: number): Uint8Array {
  const key = keyOf(device, sites, allocation)
  const site = sites.ofAllocation[allocation]
  return Uint8Array.from(sites.ofAllocation, (each, i) => Number(each === site && keyOf(device, sites, i) === key))
}

/** Allocations whose call site, role, size or address matches; sizes as shown (`2.00 MiB`) or exact. Throws for a bad expression. */
export function searchLive(live: Int32Array, device: Device, sites: Sites, typed: string): Int32Array {
  const wanted = typed.trim()
  if (!wanted) return live
  const test = textTest(wanted)
  const ofSite = sites.rows.map((site) => test(site.fullName) || test(site.file) || (site.place !== "" && test(site.place)))
  const ofRole = device.roles.map(([role]) => test(role))
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
      ofRole[device.role[i]] ||
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
