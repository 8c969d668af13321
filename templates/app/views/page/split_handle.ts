/** The handle between the timeline and the tabs of a page that is one screen: it decides how much of the height is the timeline's. */

import { h } from "../shared/dom"
import { keepSetting, keptSetting } from "../shared/settings"

const KEY = "snapreport-timeline-height"
/** Shares of the height, in percent. */
const [USUAL, LEAST, MOST, STEP] = [47, 20, 80, 4]

/** `article`: the element whose height is shared; `more`: how much more the timeline usually gets, in percent. */
export function splitHandle(article: HTMLElement, more = 0): HTMLElement {
  const key = more ? `${KEY}-${more}` : KEY
  let share = USUAL + more
  const put = (percent: number) => {
    share = Math.min(Math.max(Math.round(percent), LEAST), MOST)
    article.style.setProperty("--timeline", `${share}%`)
    element.setAttribute("aria-valuenow", String(share))
  }
  const choose = (percent: number) => {
    put(percent)
    keepSetting(key, String(share))
  }
  const element = h("div.handle", {
    role: "separator",
    tabindex: 0,
    title: "Drag to share the height between timeline and tabs; double-click to reset",
    "aria-label": "Height of the timeline",
    "aria-orientation": "horizontal",
    "aria-valuemin": LEAST,
    "aria-valuemax": MOST,
    pointerdown: (event: PointerEvent) => element.setPointerCapture(event.pointerId),
    pointermove: ({ pointerId, clientY }: PointerEvent) => {
      if (!element.hasPointerCapture(pointerId)) return
      const top = element.previousElementSibling!.getBoundingClientRect().top
      choose((100 * (clientY - top)) / article.clientHeight)
    },
    dblclick: () => choose(USUAL + more),
    keydown: (event: KeyboardEvent) => {
      const to = { ArrowUp: share - STEP, ArrowDown: share + STEP, Home: LEAST, End: MOST }[event.key]
      if (to === undefined) return
      event.preventDefault()
      choose(to)
    },
  })
  put(Number(keptSetting(key)) || share)
  return element
}
