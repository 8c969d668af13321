/** Which ranks are shown, and in which order. */

import { medianOf } from "../../lib/data/places"
import type { RunData } from "./run_data"

export type SortKey = "rank" | "peak" | "reserved" | "group" | "host" | "odd" | "versus" | "failed"

export interface RowView {
  sort: SortKey
  descending: boolean
  /** Terms separated by commas, one of which a row has to match: `17`, `8-15`, or a part of a name. */
  query: string
  /** Row of the groups, or -1 for all. */
  group: number
  kind: string
  onlyOdd: boolean
}

/** How far each row's peak is above the median of its group, or of its kind of memory if it is in none. */
export function aboveGroup(data: RunData): Float64Array {
  const middle = (rows: number[]) => medianOf(rows.map((row) => data.allocated[row]).sort((a, b) => a - b))
  const medians = data.members.map(middle)
  const kinds = new Map<string, number[]>()
  data.kind.forEach((kind, row) => kinds.set(kind, [...(kinds.get(kind) ?? []), row]))
  const usual = new Map([...kinds].map(([kind, rows]) => [kind, middle(rows)]))
  return Float64Array.from({ length: data.count }, (_, row) => {
    const group = data.group[row]
    return data.allocated[row] - (group >= 0 ? medians[group] : usual.get(data.kind[row])!)
  })
}

/** Rows in display order; equal ones keep the order of the run. */
export function orderRows(data: RunData, view: RowView, above: Float64Array): Int32Array {
  const wanted = matcher(data, view.query)
  const rows = Array.from({ length: data.count }, (_, row) => row).filter(
    (row) =>
      data.kind[row] === view.kind &&
      (view.group < 0 || data.group[row] === view.group) &&
      (!view.onlyOdd || data.odd.has(row)) &&
      wanted(row),
  )
  const compare = comparison(data, view.sort, above)
  const sign = view.descending ? -1 : 1
  return Int32Array.from(rows.sort((a, b) => sign * compare(a, b) || a - b))
}

function comparison(data: RunData, sort: SortKey, above: Float64Array): (a: number, b: number) => number {
  const places = new Map([...data.odd.keys()].map((row, place) => [row, place]))
  const by: Record<SortKey, (row: number) => number> = {
    rank: (row) => (data.rank[row] < 0 ? Infinity : data.rank[row]),
    peak: (row) => data.allocated[row],
    reserved: (row) => data.reserved[row],
    group: (row) => (data.group[row] < 0 ? Infinity : data.group[row]),
    host: () => 0,
    odd: (row) => places.get(row) ?? Infinity,
    versus: (row) => above[row],
    failed: (row) => data.failures(row).length,
  }
  if (sort === "host") return (a, b) => data.host[a].localeCompare(data.host[b], undefined, { numeric: true })
  const value = Float64Array.from({ length: data.count }, (_, row) => by[sort](row))
  return (a, b) => (value[a] === value[b] ? 0 : value[a] - value[b])
}

/** Returns a test of whether a row matches a query. */
export function matcher(data: RunData, query: string): (row: number) => boolean {
  const terms = query
    .split(",")
    .map((term) => term.trim().toLowerCase())
    .filter(Boolean)
  if (!terms.length) return () => true
  const tests = terms.map((term) => {
    const [, from, to] = /^(\d{1,9})(?:\s*(?:-|to)\s*(\d{1,9}))?$/.exec(term) ?? []
    if (from !== undefined) {
      const [low, high] = [Number(from), Number(to ?? from)]
      return (row: number) => data.rank[row] >= low && data.rank[row] <= high
    }
    return (row: number) =>
      [data.label, data.host, data.place, data.source].some((texts) => texts[row].toLowerCase().includes(term)) ||
      (data.groups[data.group[row]] ?? "").toLowerCase().includes(term) ||
      (data.odd.get(row)?.word ?? "").toLowerCase() === term
  })
  return (row) => tests.some((test) => test(row))
}
