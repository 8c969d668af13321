/** The table of what is live: its order, its search, and which rows are equal. */

import type { Device } from "../data/device"
import { oncePer } from "../data/known"
import { formatAddress, formatBytes } from "../text/format"
import type { Sites } from "../data/sites"
import { textTest } from "./search"

export type LiveColumn = "block" | "requested" | "role" | "age" | "lifetime" | "freed" | "site" | "address" | "stream" | "pool"

/** How many events an allocation lived, as far as the recording goes. */
export function lifetimeOf({ allocEvent, freeEvent }: Device, i: number): number {
  return freeEvent[i] - Math.max(allocEvent[i], 0)
}

/** Compares allocations by a column: numbers largest first, ages oldest first, names, addresses and frees upwards; ties in birth order. */
function comparison(device: Device, sites: Sites, by: LiveColumn, reversed: boolean): (a: number, b: number) => number {
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
  return (a, b) => sign * compare(a, b) || a - b
}

/** Orders allocations by a column, in place. */
export function sortLive<T extends Int32Array | number[]>(live: T, device: Device, sites: Sites, by: LiveColumn, reversed: boolean): T {
  return live.sort(comparison(device, sites, by, reversed)) as T
}

/** For each allocation the first one that is equal to it in sizes, role, call site, stream and pool; found once for the entire recording. */
const classesOf = oncePer((device: Device, { ofAllocation: site }: Sites): Int32Array => {
  const { block, blockMax, requested, role, roles, stream, pool, count } = device
  const same = (a: number, b: number) =>
    block[a] === block[b] &&
    requested[a] === requested[b] &&
    site[a] === site[b] &&
    blockMax[a] === blockMax[b] &&
    stream[a] === stream[b] &&
    pool[a] === pool[b] &&
    roles[role[a]][0] === roles[role[b]][0]
  const found = new Int32Array(count)
  const table = new Int32Array(2 ** Math.ceil(Math.log2(2 * count + 2)))
  for (let i = 0; i < count; i++) {
    const hash = Math.imul(block[i] ^ Math.imul(requested[i], 0x9e3779b1) ^ Math.imul(site[i], 0x85ebca6b), 0xc2b2ae35)
    let place = (hash ^ (hash >>> 15)) & (table.length - 1)
    while (table[place] && !same(table[place] - 1, i)) place = (place + 1) & (table.length - 1)
    table[place] ||= i + 1
    found[i] = table[place] - 1
  }
  return found
})

/** The same number for equal allocations. */
export function keyOf(device: Device, sites: Sites, i: number): number {
  return classesOf(device, sites)[i]
}

/** Of a change: 1 for each allocation that came, -1 for each that went. */
export type Signs = Int8Array | null

/** Rows of equal allocations, of which all came or all went: by their bytes in all where that is the order, else by the first of each in that order. */
export function groupEqual(
  live: ArrayLike<number>,
  device: Device,
  sites: Sites,
  by: LiveColumn,
  reversed: boolean,
  signs: Signs = null,
): number[][] {
  const ofClass = classesOf(device, sites)
  const groups: number[][] = []
  /** The number of each class's group; of what went they stand behind the others. */
  const ofKey = new Int32Array(2 * ofClass.length)
  for (let k = 0; k < live.length; k++) {
    const i = live[k]
    const key = signs && signs[i] < 0 ? ofClass.length + ofClass[i] : ofClass[i]
    if (ofKey[key]) groups[ofKey[key] - 1].push(i)
    else ofKey[key] = groups.push([i])
  }
  const compare = comparison(device, sites, by, reversed)
  if (by === "block" || by === "requested") {
    const bytes = (row: number[]) => device[by][row[0]] * row.length
    return groups.sort((a, b) => (reversed ? bytes(a) - bytes(b) : bytes(b) - bytes(a)) || compare(a[0], b[0]))
  }
  const first = new Map(groups.map((group) => [group, group.reduce((best, i) => (compare(i, best) < 0 ? i : best))]))
  return groups.sort((a, b) => compare(first.get(a)!, first.get(b)!))
}

/** 1 for each allocation of the entire recording that is equal to one. */
export function rowsEqual(device: Device, sites: Sites, allocation: number): Uint8Array {
  const ofClass = classesOf(device, sites)
  return Uint8Array.from(ofClass, (each) => Number(each === ofClass[allocation]))
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

/** Block and requested bytes of some allocations; of a change, what came less what went. */
export function addUp(live: Int32Array, device: Device, signs: Signs = null): { block: number; requested: number } {
  let [block, requested] = [0, 0]
  for (const i of live) {
    const sign = signs ? signs[i] : 1
    block += sign * device.block[i]
    requested += sign * device.requested[i]
  }
  return { block, requested }
}
