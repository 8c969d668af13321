/** The colours of chosen curves, in the order of choice; distinct for colour-blind readers too. */

// Okabe and Ito, "Color Universal Design" (2008), without yellow and black, which one of the two themes would hide.
const COLOURS = ["#d55e00", "#0092d6", "#009e73", "#cc79a7", "#e69f00", "#7a6ff0"]

export function curveColour(place: number): string {
  return COLOURS[place % COLOURS.length]
}

/** Rows whose curves are drawn: the selected one, then those kept. */
export function drawnRows(cursor: { row: number } | null, kept: number[]): number[] {
  return cursor ? [cursor.row, ...kept.filter((row) => row !== cursor.row)] : kept
}
