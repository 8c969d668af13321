/** Which rows of a long list are visible, exactly, even if the list is taller than browsers can scroll. */

/** Browsers lose precision in elements taller than 17 to 33 million pixels; stay well below. */
export const MOST_PX = 6_000_000

/** The scrolled element's height, and the relation between its scroll offset and the first visible row. */
export class RowScroll {
  /** Rows are `rowPx` tall; `viewPx` pixels are visible. */
  constructor(
    readonly count: number,
    readonly rowPx: number,
    readonly viewPx: number,
  ) {}

  get heightPx(): number {
    return Math.min(this.count * this.rowPx, MOST_PX)
  }

  /** Whether one pixel of the scroll bar stands for more than one of the list. */
  get scaled(): boolean {
    return this.count * this.rowPx > MOST_PX
  }

  /** The largest top, in rows, with a fraction. */
  get lastTop(): number {
    return Math.max(this.count - this.viewPx / this.rowPx, 0)
  }

  topAt(scrollPx: number): number {
    if (!this.scaled) return Math.min(scrollPx / this.rowPx, this.lastTop)
    return (scrollPx / Math.max(this.heightPx - this.viewPx, 1)) * this.lastTop
  }

  scrollAt(top: number): number {
    if (!this.scaled) return top * this.rowPx
    return this.lastTop === 0 ? 0 : (top / this.lastTop) * (this.heightPx - this.viewPx)
  }

  /** The rows to draw for a top, as [first, end). */
  rowsAt(top: number): [first: number, end: number] {
    const first = Math.max(Math.floor(top), 0)
    return [first, Math.min(first + Math.ceil(this.viewPx / this.rowPx) + 1, this.count)]
  }

  /** The nearest top that shows an entire row; without a view, the top stays. */
  reveal(row: number, top: number): number {
    if (this.viewPx <= 0) return top
    const inView = this.viewPx / this.rowPx
    const wanted = row < top ? row : row + 1 > top + inView ? row + 1 - inView : top
    return Math.min(Math.max(wanted, 0), this.lastTop)
  }
}
