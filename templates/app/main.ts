/** Starts the page; in a worker made of this same script, starts the painting instead. */

import { readStacks } from "./lib/data/read_device"
import type { Link } from "./lib/text/link"
import { Payload, type Summary, unpack } from "./lib/data/payload"
import type { Window } from "./lib/picture/window"
import { Surface } from "./gl/surface"
import { Address } from "./views/page/address"
import { DevicePage } from "./views/page/device_page"
import { textOf } from "./views/shared/dom"
import { cannotStart, showUncaught } from "./views/shared/failure"
import { listenPageKeys, oneStop } from "./views/shared/keys"
import { showWords } from "./views/timeline/help"
import { themeSwitch } from "./views/page/theme_switch"
import { RasterClient } from "./worker/client"
import { type DedicatedWorkerGlobalScopeLike, serve } from "./worker/server"

/** The page's interface for scripts, `window.snapreport`. */
interface PageApi {
  /** The findings, as `snapreport summary --json` prints them. */
  summary: Summary
  /** The part of the axis and the bytes that the timeline shows. */
  window(): Window | null
  /** Whether the timeline has caught up with its window. */
  settled(): boolean
  /** The strips as drawn, without axes and labels. */
  pixels(): ImageData | null
  /** The fragment that opens the present view. */
  link(): string
}

function publish(api: PageApi): void {
  Object.assign(globalThis, { snapreport: api })
}

/** Unpacks the data and wakes the device of the link, or the default; the others wait until they are chosen. */
async function startPage(script: string): Promise<void> {
  const root = document.documentElement
  performance.mark("script")
  const unpacking = unpack(textOf("payload"))
  const client = new RasterClient(script)
  const surface = new Surface()
  document.querySelector(".masthead")!.append(themeSwitch())
  const payload = new Payload(await unpacking)
  performance.mark("unpacked")
  const stacks = readStacks(payload)
  const whole = once(async () => {
    try {
      payload.add(await unpack(await later()))
    } catch (error) {
      root.classList.remove("starting") // what panels would show instead is there to read
      throw error
    }
  })
  const articles = [...document.querySelectorAll<HTMLElement>("article.device")].sort(byDevice)
  const opening = Math.max(
    articles.findIndex((article) => "default" in article.dataset),
    0,
  )
  let shown = -1
  const address = new Address(
    () => pages[shown]?.link(shown === opening ? undefined : shown) ?? {},
    (link) => void whole().then(() => show(link.device ?? opening, link)),
  )
  const pages = articles.map((article, index) => new DevicePage(article, payload, stacks, index, whole, () => address.touch()))
  const links = [...document.querySelectorAll<HTMLAnchorElement>(".switch a")].sort(byDevice)
  const show = (index: number, link: Link | null) => {
    if (index === shown || !(index in pages)) return link && pages[shown]?.follow(link)
    pages.forEach((page, k) => k !== index && page.hide())
    links.forEach((each, k) => (k === index ? each.setAttribute("aria-current", "true") : each.removeAttribute("aria-current")))
    links[index]?.closest("details")?.setAttribute("open", "")
    shown = index
    pages[index].show(surface, client, link, () => {
      performance.mark("first picture")
      root.dataset.ready = String(index)
    })
  }
  links.forEach((each, index) =>
    each.addEventListener("click", (event) => {
      event.preventDefault()
      void whole().then(() => {
        show(index, null)
        address.touch()
      })
    }),
  )
  // A finding's link changes the address; what it is about is in the panels under the timeline.
  document.querySelector("main")!.addEventListener("click", (event) => {
    if (!(event.target as Element).closest("a.show")) return
    setTimeout(() => articles[shown]?.querySelector(".moment, .panels")?.scrollIntoView({ block: "start" }))
  })
  document.querySelectorAll<HTMLElement>(".switch").forEach((each) => oneStop(each, true))
  document.querySelectorAll<HTMLElement>("section.findings").forEach((each) => oneStop(each))
  // One key tells what all words mean; to click one still does.
  document.querySelectorAll<HTMLElement>(".term, dt[tabindex]").forEach((each) => (each.tabIndex = -1))
  listenPageKeys({ "/": () => pages[shown]?.search(), g: showWords })
  publish({
    summary: payload.header.summary,
    window: () => pages[shown]?.window ?? null,
    settled: () => pages[shown]?.settled ?? true,
    pixels: () => pages[shown]?.pixels() ?? null,
    link: () => address.fragment,
  })
  if (!pages.length) {
    root.classList.remove("starting")
    root.dataset.ready = root.dataset.complete = ""
    return
  }
  const wanted = Address.read()
  const plain =
    !Object.keys(wanted).length && ["site", "role"].includes(payload.header.colour) && articles[opening].querySelector(".stage-slot")
  if (!plain) await whole() // the first picture may be of what comes later
  show(wanted.device !== undefined && wanted.device in pages ? wanted.device : opening, wanted)
}

/** The page shows the most important device first; devices are counted as in the file. */
function byDevice(one: HTMLElement, other: HTMLElement): number {
  return Number(one.dataset.device) - Number(other.dataset.device)
}

/** The text of what the first picture does without: it stands behind this script, where the parser may not have come yet. */
async function later(): Promise<string> {
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done, { once: true }))
  return textOf("later")
}

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

if (typeof document === "undefined") serve(globalThis as unknown as DedicatedWorkerGlobalScopeLike)
else {
  showUncaught()
  startPage(document.currentScript!.textContent!).catch(cannotStart)
}
