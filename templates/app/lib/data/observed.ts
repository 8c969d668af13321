/** A state with listeners that are called when it changes. */

export abstract class Observed<S> {
  protected abstract current: S
  private readonly listeners: ((state: S, before: S) => void)[] = []

  get state(): S {
    return this.current
  }

  on(listener: (state: S, before: S) => void): void {
    this.listeners.push(listener)
  }

  /** Notifies the listeners of a change from an earlier state. */
  protected tell(before: S): void {
    const { current } = this
    for (const listener of this.listeners) {
      try {
        listener(current, before)
      } catch (error) {
        reportError(error) // the other listeners are still called
      }
    }
  }
}
