/** The view as the fragment of the page's address, so that a link opens what its sender saw. */

/** What a fragment holds: short keys, in this order. Values are as written by `encodeLink`. */
export interface Link {
  device?: number
  /** Event window: x0, x1, y0, y1. */
  window?: [number, number, number, number]
  axis?: string
  curve?: string
  cursor?: number
  colouring?: string
  /** Rows of the colouring's groups: the only ones that count, or those that do not. */
  only?: number[]
  without?: number[]
  pinned?: number
  oom?: number
  ruler?: [number, number, number, number]
  tab?: string
  search?: string
  /** How call stacks are shown: their order, which frames, and the node in focus. */
  stacks?: string
  frames?: string
  focus?: number
  /** What is selected in which panel: `stacks:12`. */
  selection?: string
}

type Read = (text: string) => unknown

const text: Read = (value) => value
const integer: Read = (value) => (/^-?\d{1,15}$/.test(value) ? Number(value) : undefined)
const numbers = (value: string) => {
  const all = value.split(",").map(Number)
  return value && all.every(Number.isFinite) ? all : undefined
}
/** The most rows of a link: more than any page has groups. */
const MOST_ROWS = 100_000
/** Rows, and ranges of them: `0-3,7`. */
const rows: Read = (value) => {
  const found: number[] = []
  for (const part of value.split(",")) {
    const [, from, to = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part) ?? []
    if (from) for (let row = Number(from); row <= Number(to) && found.length < MOST_ROWS; row++) found.push(row)
  }
  return value ? found : undefined
}
const four: Read = (value) => (numbers(value)?.length === 4 ? numbers(value) : undefined)

/** The key of each part, and how its value is read; an invalid value is undefined. */
const PARTS: Record<keyof Link, [key: string, read: Read]> = {
  device: ["device", integer],
  axis: ["axis", text],
  window: ["view", four],
  curve: ["curve", text],
  cursor: ["event", integer],
  colouring: ["colour", text],
  only: ["only", rows],
  without: ["without", rows],
  pinned: ["allocation", integer],
  oom: ["oom", integer],
  ruler: ["ruler", four],
  tab: ["tab", text],
  search: ["search", text],
  stacks: ["stacks", text],
  frames: ["frames", text],
  focus: ["focus", integer],
  selection: ["selected", text],
}

/** A fragment without its `#`; `""` for the view that the page opens with. */
export function encodeLink(link: Link): string {
  const parts: string[] = []
  for (const [name, [key]] of Object.entries(PARTS)) {
    const value = link[name as keyof Link]
    if (value === undefined || value === "") continue
    const written =
      name === "only" || name === "without"
        ? inRanges(value as number[])
        : Array.isArray(value)
          ? value.map(shortNumber).join(",")
          : typeof value === "number"
            ? shortNumber(value)
            : value
    parts.push(`${key}=${encodeURIComponent(written).replace(/%2C/g, ",").replace(/%3A/g, ":")}`)
  }
  return parts.join("&")
}

/** `0-3,7` for 0, 1, 2, 3 and 7, given in order. */
function inRanges(rows: number[]): string {
  const parts: [number, number][] = []
  for (const row of rows) {
    const last = parts.at(-1)
    if (last && row === last[1] + 1) last[1] = row
    else parts.push([row, row])
  }
  return parts.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",")
}

/** Enough digits to find the same pixel again. */
function shortNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)))
}

/** Reads a fragment; invalid parts are left out. */
export function decodeLink(fragment: string): Link {
  const old = /^#?device-(\d+)$/.exec(fragment) // the links that work without JavaScript
  if (old) return { device: Number(old[1]) }
  const values = new Map<string, string>()
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=")
    if (at > 0) values.set(part.slice(0, at), decoded(part.slice(at + 1)))
  }
  const link: Record<string, unknown> = {}
  for (const [name, [key, read]] of Object.entries(PARTS)) {
    const value = values.get(key)
    const found = value === undefined ? undefined : read(value)
    if (found !== undefined) link[name] = found
  }
  return link
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ""
  }
}
