/** What is done once, and what is computed once for each object and forgotten with it. */

/** A function that does something the first time it is called, and returns what came of that from then on. */
export function once<T>(make: () => T): () => T {
  let made: { value: T } | null = null
  return () => (made ??= { value: make() }).value
}

/** A function that computes something of an object when first asked, and returns that from then on; `more` is what else it takes. */
export function oncePer<K extends object, A extends unknown[], V>(make: (of: K, ...more: A) => V): (of: K, ...more: A) => V {
  const known = new WeakMap<K, { value: V }>()
  return (of, ...more) => {
    let found = known.get(of)
    if (!found) known.set(of, (found = { value: make(of, ...more) }))
    return found.value
  }
}
