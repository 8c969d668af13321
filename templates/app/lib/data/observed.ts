/** A state that many show, and who wants to know when it changes. */

export abstract class Observed<S> {
  protected abstract current: S
  private readonly listeners: ((state: S, before: S) => void)[] = []

  get state(): S {
    return this.current
  }

  on(listener: (state: S, before: S) => void): void {
    this.listeners.push(listener)
  }

  /** Says that the present state has followed another. */
  protected tell(before: S): void {
    const { current } = this
    for (const listener of this.listeners) {
      try {
        listener(current, before)
      } catch (error) {
        reportError(error) // the others are told all the same
      }
    }
  }
}
