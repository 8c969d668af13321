/** The view as the fragment of the page's address, so that a link opens what its sender saw. */

/** Rows of groups, by colouring. */
export type Rows = Map<string, number[]>

const text = (value: string): string => value
const integer = (value: string) => (/^-?\d{1,15}$/.test(value) ? Number(value) : undefined)
const four = (value: string) => {
  const all = value.split(",").map(Number)
  return value && all.length === 4 && all.every(Number.isFinite) ? (all as [number, number, number, number]) : undefined
}
/** The most rows of a link: more than any page has groups. */
const MOST_ROWS = 100_000
/** Colourings, each with rows and ranges of them: `role:0-3,7;metadata%253Akey:1`. */
const rows = (value: string): Rows | undefined => {
  const found: Rows = new Map()
  let count = 0
  for (const each of value.split(";")) {
    const [colouring, list = ""] = each.split(":")
    const some: number[] = []
    for (const part of list.split(",")) {
      const [, from, to = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part) ?? []
      if (from) for (let row = Number(from); row <= Number(to) && count < MOST_ROWS; row++, count++) some.push(row)
    }
    if (some.length) found.set(decoded(colouring), some)
  }
  return found.size ? found : undefined
}

/** What a fragment holds: the key of each part, in this order, and how its value is read; an invalid value is undefined. */
const PARTS = {
  device: ["device", integer],
  axis: ["axis", text],
  /** x0, x1, y0, y1. */
  window: ["view", four],
  curve: ["curve", text],
  cursor: ["event", integer],
  colouring: ["colour", text],
  /** For some colourings, rows of their groups: the only ones that count, or those that do not. */
  only: ["only", rows],
  without: ["without", rows],
  pinned: ["allocation", integer],
  oom: ["oom", integer],
  /** The markers, and what is asked about them. */
  a: ["a", integer],
  b: ["b", integer],
  c: ["c", integer],
  ask: ["ask", text],
  tab: ["tab", text],
  search: ["search", text],
  /** How call stacks are shown: their order, which frames, and the node in focus. */
  stacks: ["stacks", text],
  frames: ["frames", text],
  focus: ["focus", integer],
  /** What is selected in which panel: `stacks:12`. */
  selection: ["selected", text],
} as const

export type Link = { [Part in keyof typeof PARTS]?: ReturnType<(typeof PARTS)[Part][1]> }

/** A fragment without its `#`; `""` for the view that the page opens with. */
export function encodeLink(link: Link): string {
  const parts: string[] = []
  for (const [name, [key]] of Object.entries(PARTS)) {
    const value = link[name as keyof Link]
    if (value === undefined || value === "") continue
    const written =
      value instanceof Map
        ? [...value].map(([colouring, some]) => `${encodeURIComponent(colouring)}:${inRanges(some)}`).join(";")
        : Array.isArray(value)
          ? value.map(shortNumber).join(",")
          : typeof value === "number"
            ? shortNumber(value)
            : value
    parts.push(`${key}=${encodeURIComponent(written).replace(/%(2C|3A|3B)/g, (sign) => decodeURIComponent(sign))}`)
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
