/** The view as the fragment of the page's address, so that a link shows what its sender saw. */

/** What a fragment holds: short keys, in this order. Values are as written by `encodeLink`. */
export interface Link {
  device?: number
  /** Event window: x0, x1, y0, y1. */
  window?: [number, number, number, number]
  axis?: string
  curve?: string
  cursor?: number
  colouring?: string
  filtered?: number[]
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

const KEYS: Record<keyof Link, string> = {
  device: "device",
  axis: "axis",
  window: "view",
  curve: "curve",
  cursor: "event",
  colouring: "colour",
  filtered: "without",
  pinned: "allocation",
  oom: "oom",
  ruler: "ruler",
  tab: "tab",
  search: "search",
  stacks: "stacks",
  frames: "frames",
  focus: "focus",
  selection: "selected",
}

/** A fragment without its `#`; `""` for a view of which nothing differs from the page's own. */
export function encodeLink(link: Link): string {
  const parts: string[] = []
  for (const [name, key] of Object.entries(KEYS)) {
    const value = link[name as keyof Link]
    if (value === undefined || value === "") continue
    const text = Array.isArray(value) ? value.map(shortNumber).join(",") : typeof value === "number" ? shortNumber(value) : value
    parts.push(`${key}=${encodeURIComponent(text).replace(/%2C/g, ",").replace(/%3A/g, ":")}`)
  }
  return parts.join("&")
}

/** Enough digits to find the same pixel again. */
function shortNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)))
}

/** Reads a fragment; whatever makes no sense in it is left out. */
export function decodeLink(fragment: string): Link {
  const values = new Map<string, string>()
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=")
    if (at > 0) values.set(part.slice(0, at), decoded(part.slice(at + 1)))
  }
  const integer = (key: string): number | undefined => {
    const value = values.get(key)
    return value !== undefined && /^-?\d{1,15}$/.test(value) ? Number(value) : undefined
  }
  const numbers = (key: string): number[] | undefined => {
    const value = values.get(key)
    if (!value) return undefined
    const all = value.split(",").map(Number)
    return all.every(Number.isFinite) ? all : undefined
  }
  const four = (key: string) => {
    const all = numbers(key)
    return all?.length === 4 ? (all as [number, number, number, number]) : undefined
  }
  const old = /^#?device-(\d+)$/.exec(fragment) // the links that work without JavaScript
  const link: Link = {
    device: old ? Number(old[1]) : integer(KEYS.device),
    window: four(KEYS.window),
    axis: values.get(KEYS.axis),
    curve: values.get(KEYS.curve),
    cursor: integer(KEYS.cursor),
    colouring: values.get(KEYS.colouring),
    filtered: numbers(KEYS.filtered)?.filter(Number.isInteger),
    pinned: integer(KEYS.pinned),
    oom: integer(KEYS.oom),
    ruler: four(KEYS.ruler),
    tab: values.get(KEYS.tab),
    search: values.get(KEYS.search),
    stacks: values.get(KEYS.stacks),
    frames: values.get(KEYS.frames),
    focus: integer(KEYS.focus),
    selection: values.get(KEYS.selection),
  }
  for (const key of Object.keys(link) as (keyof Link)[]) if (link[key] === undefined) delete link[key]
  return link
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ""
  }
}
