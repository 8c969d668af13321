/** Keeps the view in the page's address, and takes it from there. */

import { decodeLink, encodeLink, type Link } from "../lib/link"
import { sameWindow } from "../lib/window"
import type { State, Store } from "../store"

const WAIT_MS = 250

/** The parts of the view that differ from what the page opens with. */
export function linkOf(store: Store, device: number | undefined): Link {
  const { state: s, whole } = store
  return {
    device,
    axis: s.axis === "steps" ? undefined : s.axis,
    window: sameWindow(s.window, whole) ? undefined : [s.window.x0, s.window.x1, s.window.y0, s.window.y1],
    curve: s.curve === "allocated" ? undefined : s.curve,
    cursor: s.cursor === store.opening(s.curve) ? undefined : s.cursor,
    colouring: s.colouring === "site" ? undefined : s.colouring,
    filtered: s.filtered.size ? [...s.filtered].sort((a, b) => a - b) : undefined,
    pinned: s.pinned < 0 ? undefined : s.pinned,
    oom: s.pinnedOom < 0 ? undefined : s.pinnedOom,
    ruler: s.ruler ? [s.ruler.x0, s.ruler.y0, s.ruler.x1, s.ruler.y1] : undefined,
    tab: s.tab === "stacks" ? undefined : s.tab,
    search: s.search,
    selection: s.selection ? `${s.selection.panel}:${s.selection.key}` : undefined,
  }
}

/** Sets a view from a link; what does not fit this recording is left as it is. */
export function follow(store: Store, link: Link): void {
  const { device, ooms, hasTimes } = store.history
  const change: Partial<State> = {}
  if (link.axis === "time" && hasTimes) change.axis = "time"
  if (link.curve === "requested") change.curve = "requested"
  store.set(change)
  const rest: Partial<State> = {}
  if (link.window) {
    const [x0, x1, y0, y1] = link.window
    if (x1 > x0 && y1 > y0) rest.window = { x0, x1, y0, y1 }
  }
  if (link.cursor !== undefined && link.cursor >= -1 && link.cursor < device.events) rest.cursor = link.cursor
  if (link.colouring) rest.colouring = link.colouring
  if (link.filtered) rest.filtered = new Set(link.filtered)
  if (link.pinned !== undefined && link.pinned >= 0 && link.pinned < device.count) rest.pinned = link.pinned
  else if (link.oom !== undefined && link.oom in ooms) rest.pinnedOom = link.oom
  if (link.ruler) rest.ruler = { x0: link.ruler[0], y0: link.ruler[1], x1: link.ruler[2], y1: link.ruler[3] }
  if (link.tab) rest.tab = link.tab
  if (link.search) rest.search = link.search
  store.set(rest)
}

/** Writes a fragment into the address without a step in the browser's history. */
export class Address {
  private timer = 0
  private written = location.hash

  constructor(private readonly current: () => Link, onForeign: (link: Link) => void) {
    addEventListener("hashchange", () => {
      if (location.hash === this.written) return
      this.written = location.hash
      onForeign(decodeLink(location.hash))
    })
  }

  static read(): Link {
    return decodeLink(location.hash)
  }

  get fragment(): string {
    return encodeLink(this.current())
  }

  /** The view changed; the address follows when it rests. */
  touch(): void {
    clearTimeout(this.timer)
    this.timer = window.setTimeout(() => this.write(), WAIT_MS)
  }

  private write(): void {
    const { fragment } = this
    if (`#${fragment}` === location.hash || (!fragment && !location.hash)) return
    const url = fragment ? `#${fragment}` : location.pathname + location.search
    try {
      history.replaceState(null, "", url)
      this.written = location.hash
    } catch {
      // some browsers give files no history; then the address stays as it was
    }
  }
}
