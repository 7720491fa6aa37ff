// Answers to the page, in a worker or beside it: the important ones first, each as soon as it is known.
//
// In:  questions; a newer one makes all older ones pointless.
// Out: messages, in this order: answer or clash, target, information, completion.

import { completions, type Completion } from "./completion.ts";
import { Engine, without, type Answer, type Contribution, type Evidence, type Information } from "./engine.ts";
import { readModel, type ReadData } from "./model.ts";
import { isSame } from "./scenario.ts";

export interface Question {
  id: number;
  evidence: Evidence;
  pinned: Evidence | null;
  target: number | null;
}

export interface TargetAnswer {
  posterior: Float64Array; // whatever is set in the target itself
  contributions: Contribution[];
}

export type Message =
  | { kind: "ready"; nothing: Answer }
  | { kind: "failed"; reason: string }
  | { kind: "answer"; id: number; answer: Answer; pinned: Answer | null; milliseconds: number }
  | { kind: "clash"; id: number; columns: number[]; pinned: Answer | null }
  | { kind: "target"; id: number; target: TargetAnswer | null }
  | { kind: "information"; id: number; information: Information[] }
  | { kind: "completion"; id: number; completion: Completion | null };

const SLICE = 5; // milliseconds at a time, so that a new question does not wait
const SEARCH = 500; // milliseconds for the most probable completion

export class Server {
  private readonly engine: Engine;
  private readonly send: (message: Message) => void;
  private work: Generator<void> | null = null;
  private readonly turn = new MessageChannel();
  private isWaiting = false;
  private pinned: { evidence: Evidence; answer: Answer } | null = null;

  constructor(data: ReadData, send: (message: Message) => void) {
    this.send = send;
    this.turn.port2.onmessage = () => {
      this.isWaiting = false;
      this.step();
    };
    this.engine = new Engine(readModel(data));
    send({ kind: "ready", nothing: this.engine.nothing });
  }

  ask(question: Question): void {
    this.work = this.answer(question);
    this.step(); // the first slice at once
  }

  private step(): void {
    const end = performance.now() + SLICE;
    while (this.work !== null && performance.now() < end) {
      if (this.work.next().done) this.work = null;
    }
    if (this.work !== null && !this.isWaiting) {
      this.isWaiting = true;
      this.turn.port1.postMessage(null); // setTimeout would wait for four milliseconds
    }
  }

  private *answer({ id, evidence, pinned, target }: Question): Generator<void> {
    const { engine, send } = this;
    const start = performance.now();
    const answer = engine.answer(evidence);
    if (pinned && !isSame(pinned, this.pinned?.evidence ?? null)) this.pinned = { evidence: pinned, answer: engine.answer(pinned) };
    const held = pinned ? this.pinned!.answer : null;
    if (answer.logP === -Infinity) {
      send({ kind: "clash", id, columns: engine.clash(evidence), pinned: held });
      return;
    }
    send({ kind: "answer", id, answer, pinned: held, milliseconds: performance.now() - start });
    yield;
    if (target !== null) yield* this.aboutTarget(id, evidence, target);
    else send({ kind: "target", id, target: null });
    const until = performance.now() + SEARCH;
    let best: Completion | null = null;
    for (const completion of completions(engine, evidence)) {
      best = completion ?? best;
      if (best !== null && performance.now() > until) break;
      yield;
    }
    send({ kind: "completion", id, completion: best?.values.length ? best : null });
  }

  private *aboutTarget(id: number, evidence: Evidence, target: number): Generator<void> {
    const { engine, send } = this;
    const posterior = engine.posteriorOf(target, without(evidence, target));
    const contributions: Contribution[] = [];
    for (const one of engine.contributions(target, evidence)) {
      contributions.push(one);
      yield;
    }
    send({ kind: "target", id, target: { posterior, contributions } });
    const search = engine.information(target, evidence);
    for (;;) {
      const step = search.next();
      if (step.done) {
        send({ kind: "information", id, information: step.value });
        return;
      }
      yield;
    }
  }
}
