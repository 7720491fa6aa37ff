/** Everything that a generator yields, and what it returns. */
export function all<T, R>(generator: Generator<T, R>): { yielded: T[]; result: R } {
  const yielded: T[] = [];
  for (;;) {
    const step = generator.next();
    if (step.done) return { yielded, result: step.value };
    yielded.push(step.value);
  }
}
