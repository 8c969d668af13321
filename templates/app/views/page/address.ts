/** Keeps the view in the page's address, and restores it from there. */

import { colouringsOf, groupBy, type Grouping, whyPlain } from "../../lib/tables/grouping"
import { decodeLink, encodeLink, type Link } from "../../lib/text/link"
import { originsOf } from "../../lib/data/origins"
import { drawnRow, recordedRow } from "../../lib/data/rest"
import { CallTree, ROOT } from "../../lib/tables/tree"
import { directionOf, parseKey, STACK_MODES, type StacksView, WHOLE_TREE } from "../../lib/tables/tree_model"
import { sameWindow } from "../../lib/picture/window"
import type { State, Store } from "../../store"
import { tabsOf } from "../panels/panels"

const WAIT_MS = 250

/** The parts of the view that differ from what the page opens with. */
export function linkOf(store: Store, device: number | undefined): Link {
  const { state: s } = store
  const selection = s.selection ? `${s.selection.panel}:${s.selection.key}` : undefined
  const implied = impliedView(selection)
  return {
    device,
    axis: s.axis === "events" ? undefined : s.axis,
    window: sameWindow(s.window, store.opens) ? undefined : [s.window.x0, s.window.x1, s.window.y0, s.window.y1],
    curve: s.curve === "allocated" ? undefined : s.curve,
    cursor: s.cursor === store.opening(s.curve) ? undefined : s.cursor,
    colouring: s.colouring === store.colouring ? undefined : s.colouring,
    ...leftOut(groupBy(store.history, s.colouring), s.filtered),
    pinned: s.pinned < 0 ? undefined : recordedRow(store.history.device, s.pinned),
    oom: s.pinnedOom < 0 ? undefined : s.pinnedOom,
    ruler: s.ruler ? [s.ruler.x0, s.ruler.y0, s.ruler.x1, s.ruler.y1] : undefined,
    tab: s.tab === "stacks" ? undefined : s.tab,
    search: s.search,
    stacks: s.stacks.mode === implied.mode ? undefined : s.stacks.mode,
    frames: s.stacks.folded === implied.folded ? undefined : s.stacks.folded ? "folded" : "all",
    focus: s.stacks.top === ROOT ? undefined : s.stacks.top,
    selection,
  }
}

/** What is left out, or what is not: the shorter list. */
function leftOut({ groups }: Grouping, filtered: ReadonlySet<number>): Pick<Link, "only" | "without"> {
  if (!filtered.size) return {}
  const kept = [...groups.keys()].filter((row) => !filtered.has(row))
  return kept.length && kept.length < filtered.size ? { only: kept } : { without: [...filtered].sort((a, b) => a - b) }
}

/** The colouring and the groups left out; if the page does not offer the colouring, its groups are ignored. */
function colours({ history, colouring }: Store, link: Link): Pick<State, "colouring" | "filtered"> {
  const wanted = link.colouring ?? colouring
  const fits = wanted === colouring || colouringsOf(history.device).some(([name]) => name === wanted && !whyPlain(history, name))
  if (!fits) return { colouring, filtered: new Set() }
  const rows = (link.only || link.without) && history.device.summary.recorded ? [...groupBy(history, wanted).groups.keys()] : []
  const only = new Set(link.only)
  const without = new Set(link.without)
  const kept = rows.some((row) => only.has(row)) // else it is about another recording
  return { colouring: wanted, filtered: new Set(rows.filter((row) => without.has(row) || (kept && !only.has(row)))) }
}

/** The search is that of the tab. */
function tabAndSearch({ history }: Store, { tab = "stacks", search = "" }: Link): Pick<State, "tab" | "search"> {
  return tabsOf(history).some(({ id }) => id === tab) ? { tab, search } : { tab: "stacks", search: "" }
}

/** The view of call stacks that a selection implies, so that a link need not repeat it. */
function impliedView(selection: string | undefined): StacksView {
  const key = parseKey(selection?.replace(/^stacks:/, "") ?? "")
  return key ? { mode: key.direction, folded: key.folded, top: ROOT } : WHOLE_TREE
}

function stacksView({ device, stacks }: Store["history"], link: Link): StacksView {
  const implied = impliedView(link.selection)
  const mode = STACK_MODES.find((each) => each === link.stacks) ?? implied.mode
  const folded = link.frames === "all" ? false : link.frames === "folded" ? true : implied.folded
  if (!link.focus || link.focus < 0) return { mode, folded, top: ROOT }
  const { size } = new CallTree(device, stacks, originsOf(device, stacks), directionOf(mode), folded)
  return { mode, folded, top: link.focus < size ? link.focus : ROOT }
}

/** Sets the entire view from a link; parts that are missing, or do not fit this recording, are as the page opens. */
export function follow(store: Store, link: Link): void {
  const { device, ooms, hasTimes } = store.history
  store.set({ axis: link.axis === "time" && hasTimes ? "time" : "events", curve: link.curve === "requested" ? "requested" : "allocated" })
  const [x0, x1, y0, y1] = link.window ?? [0, 0, 0, 0]
  const inside = (id: number | undefined, count: number) => id !== undefined && id >= 0 && id < count
  const pinned = link.pinned === undefined ? -1 : drawnRow(device, link.pinned)
  store.set(colours(store, link)) // which decides how high the axis is
  const change: Partial<State> = {
    window: x1 > x0 && y1 > y0 ? { x0, x1, y0, y1 } : store.opens,
    cursor: link.cursor === -1 || inside(link.cursor, device.events) ? link.cursor! : store.opening(store.state.curve),
    pinned,
    pinnedOom: pinned < 0 && inside(link.oom, ooms.length) ? link.oom! : -1,
    selection: null,
    ruler: link.ruler ? { x0: link.ruler[0], y0: link.ruler[1], x1: link.ruler[2], y1: link.ruler[3] } : null,
    ...tabAndSearch(store, link),
    stacks: stacksView(store.history, link),
  }
  store.set(change)
}

/** Writes a fragment into the address without a new entry in the browser's history. */
export class Address {
  private timer = 0
  private written = location.hash

  constructor(
    private readonly current: () => Link,
    onForeign: (link: Link) => void,
  ) {
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

  /** To be called when the view changes; the address follows once the view rests. */
  touch(): void {
    clearTimeout(this.timer)
    this.timer = window.setTimeout(() => this.write(), WAIT_MS)
  }

  private write(): void {
    // The reader has just followed another link, whose event is still to come: do not overwrite it.
    if (location.hash !== this.written) return
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
