// The page: what is set, the tiles, the target; and everything that people do with them.

import type { JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { connect, type Client } from "../client.ts";
import type { Completion } from "../completion.ts";
import type { Answer, Information } from "../engine.ts";
import { readColumns, type Column, type ReadData } from "../model.ts";
import {
  asRange, choose, chooseRange, exclude, fromHash, History, release, toHash, type Scenario,
} from "../scenario.ts";
import type { Message, TargetAnswer } from "../server.ts";
import { moved, oneIn, percent, saying } from "../words.ts";
import { Why, Help } from "./dialogs.tsx";
import { Chips, MostProbable, Probability, Strip } from "./summary.tsx";
import { Target } from "./target.tsx";
import { Tile, type Action } from "./tile.tsx";

type Sort = "table" | "change" | "information" | "name";
type Mode = "choose" | "exclude" | "range";

/** What is known about the scenario so far; parts come one after the other. */
interface Known {
  id: number;
  of: Scenario | null;
  milliseconds: number;
  answer: Answer | null;
  clash: number[] | null;
  pinned: Answer | null;
  target: TargetAnswer | null;
  information: Information[] | null;
  completion: Completion | null | undefined;
  done: string[];
}

const MANY = 24; // columns, with which those that change come first
const NOTHING: Known = {
  id: -1, of: null, milliseconds: 0, answer: null, clash: null, pinned: null, target: null, information: null,
  completion: undefined, done: [],
};

export function App({ data }: { data: ReadData }): JSX.Element {
  const columns = useMemo(() => readColumns(data), [data]);
  const [history, setHistory] = useState(() => new History(fromHash(location.hash, columns, data.target)));
  const [prior, setPrior] = useState<Answer | null>(null);
  const [known, setKnown] = useState<Known>(NOTHING);
  const [failure, setFailure] = useState<string | null>(null);
  const [sort, setSort] = useState<Sort>(columns.length > MANY ? "change" : "table");
  const [mode, setMode] = useState<Mode>("choose");
  const [filter, setFilter] = useState("");
  const [dialog, setDialog] = useState<"help" | "why" | null>(null);
  const [toast, setToast] = useState("");
  const client = useRef<Client | null>(null);
  const asked = useRef(0);
  const askedFor = useRef<Scenario | null>(null);
  const askedAt = useRef(0);
  const { now } = history;

  // One line to the engine, for as long as the page is open.
  useEffect(() => {
    const receive = (message: Message) => {
      if (message.kind === "ready") setPrior(message.nothing);
      else if (message.kind === "failed") setFailure(message.reason);
      else if (message.id === asked.current) {
        const of = askedFor.current;
        setKnown((before) => ({ ...withMessage(before, message), of }));
      }
    };
    client.current = connect(data, receive);
  }, [data]);
  const { evidence, pinned, target } = now;
  useLayoutEffect(() => { // at once, not after the next frame
    if (prior === null) return;
    asked.current += 1;
    askedFor.current = now;
    client.current?.ask({ id: asked.current, evidence, pinned, target });
  }, [prior === null, evidence, pinned, target]);
  useLayoutEffect(() => {
    if (known.done.length === 1) performance.measure("answer", { start: askedAt.current, detail: known.milliseconds });
  }, [known]);

  useEffect(() => {
    const onInput = () => (askedAt.current = performance.now());
    const inputs = ["click", "keydown", "pointermove"];
    for (const kind of inputs) addEventListener(kind, onInput, { capture: true });
    return () => inputs.forEach((kind) => removeEventListener(kind, onInput, { capture: true }));
  }, []);

  const top = useRef<HTMLDivElement>(null);
  useEffect(() => { // the panel stays below the line on top, however high that is
    if (top.current === null) return;
    const watch = new ResizeObserver(() =>
      document.documentElement.style.setProperty("--top", `${top.current?.offsetHeight ?? 0}px`));
    watch.observe(top.current);
    return () => watch.disconnect();
  }, [prior === null]);

  // The address says what is set; a new address sets it.
  useEffect(() => {
    const hash = toHash(now, columns);
    if (hash === location.hash.slice(1)) return;
    try {
      window.history.replaceState(null, "", hash === "" ? location.pathname + location.search : `#${hash}`);
    } catch {
      // a page inside another page has no address of its own
    }
  }, [now]);
  useEffect(() => {
    const onHash = () => setHistory((before) => before.go(fromHash(location.hash, columns, data.target)));
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = /^(input|select|textarea)$/i.test((event.target as Element | null)?.tagName ?? "");
      const key = event.key.toLowerCase();
      if ((event.ctrlKey || event.metaKey) && (key === "z" || key === "y") && !isTyping) {
        const isRedo = key === "y" || event.shiftKey;
        setHistory((before) => (isRedo ? before.redo() : before.undo()));
      } else if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      else if (key === "/") document.getElementById("filter")?.focus();
      else if (key === "?") setDialog("help");
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);

  const go = useCallback((next: (scenario: Scenario) => Partial<Scenario>) => {
    setHistory((before) => before.go(next(before.now)));
  }, []);
  const act = useCallback((c: number, value: number, action: Action, from?: number, isSameDrag = false) => {
    const { size, isOrdered } = columns[c];
    const next = ({ evidence: given }: Scenario): Partial<Scenario> => {
      const span = given.has(c) ? asRange(given.get(c)!) : null;
      const wanted = action === "choose" ? mode : action;
      if (wanted === "exclude") return { evidence: exclude(given, c, value, size) };
      if (wanted === "range" && from === undefined && isOrdered && span) {
        return { evidence: chooseRange(given, c, Math.min(span[0], value), Math.max(span[0], value), size) };
      }
      if (wanted === "range" && from !== undefined) return { evidence: chooseRange(given, c, from, value, size) };
      return { evidence: choose(given, c, value, size) };
    };
    setHistory((before) => (isSameDrag ? before.correct(next(before.now)) : before.go(next(before.now))));
  }, [columns, mode]);
  const letGo = useCallback((c: number) => go((s) => ({ evidence: release(s.evidence, c) })), []);
  const aim = useCallback((c: number | null) => go((s) => ({ target: s.target === c ? null : c })), []);
  const show = useCallback((c: number) => {
    setFilter("");
    requestAnimationFrame(() => {
      const tile = document.querySelector<HTMLElement>(`[data-place="${c}"]`);
      tile?.scrollIntoView({ block: "center", behavior: "smooth" });
      tile?.classList.add("flash");
      setTimeout(() => tile?.classList.remove("flash"), 1200);
      setTimeout(() => tile?.querySelector<HTMLElement>('[data-value][tabindex="0"]')?.focus({ preventScroll: true }), 400);
    });
  }, []);

  const isImpossible = known.clash !== null;
  const answered = known.of?.evidence ?? evidence; // what the answers that are shown are about
  const answer = known.answer ?? prior;
  const order = useMemo(
    () => (answer && prior ? ordered(sort, columns, answer, known.pinned ?? prior, known.information, now) : []),
    [sort, answer, known.pinned, known.information, now],
  );
  const words = filter.trim().toLowerCase();
  const visible = useMemo(() => order.filter((c) => words === "" || columns[c].name.toLowerCase().includes(words)
    || columns[c].texts.some((text) => text.toLowerCase().includes(words))), [order, words]);
  useFocusKept(visible);

  if (failure !== null) return <p class="wait">The model could not be read: {failure}</p>;
  if (prior === null || answer === null) return <p class="wait">Opening the model…</p>;

  const share = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      setToast("The link is copied. It opens this page with what is set now.");
    } catch {
      setToast("Copy the address of this page: it says what is set now.");
    }
    setTimeout(() => setToast(""), 4000);
  };
  const isChanged = evidence.size > 0 || pinned !== null;
  return (
    <div class="page" data-done={known.of === now ? known.done.join(" ") : ""}>
      <div class="top" ref={top}>
        <div class="bar">
          <h1><bdi>{data.title}</bdi></h1>
          <nav aria-label="Scenario">
            <button onClick={() => setHistory(history.undo())} disabled={history.past.length === 0} title="Undo (Ctrl+Z)" aria-label="Undo">↶</button>
            <button onClick={() => setHistory(history.redo())} disabled={history.future.length === 0} title="Redo (Ctrl+Shift+Z)" aria-label="Redo">↷</button>
            <button onClick={() => go(() => ({ evidence: new Map(), pinned: null }))} disabled={!isChanged}>Reset</button>
            {pinned === null
              ? <button class="pin" onClick={() => go((s) => ({ pinned: s.evidence }))} title="Keep this scenario and compare others with it">Pin to compare</button>
              : <button class="pin on" onClick={() => go(() => ({ pinned: null }))}>Unpin</button>}
            <button onClick={share}>Share link</button>
            <Theme />
            <button onClick={() => setDialog("help")} aria-label="Help" title="Help (?)">?</button>
          </nav>
        </div>
        {pinned !== null && (
          <div class="scenarios">
            <p class="scenario held"><b>Pinned</b> {pinned.size === 0 ? "nothing set" : <Chips columns={columns} evidence={pinned} />}
              {known.pinned && pinned.size > 0 && <span class="hint"> {oneIn(known.pinned.logP)}</span>}</p>
            <p class="scenario"><b>Now</b> {evidence.size === 0 ? "nothing set" : <Chips columns={columns} evidence={evidence} release={letGo} />}
              <button class="mini" onClick={() => go((s) => ({ evidence: s.pinned!, pinned: s.evidence }))} title="Swap the two scenarios" aria-label="Swap the two scenarios">⇅</button></p>
          </div>
        )}
        <div class="summary">
          {pinned === null && evidence.size > 0 && <Chips columns={columns} evidence={evidence} release={letGo} />}
          {known.clash !== null
            ? <p class="clash" role="alert">Impossible together: {known.clash.map((c, i) => (
                <span key={c}>{i > 0 && " and "}<bdi>{columns[c].name}</bdi>: <b><bdi>{saying(columns[c], answered.get(c)!)}</bdi></b></span>
              ))}. The model says that this never happens. Release one of them.</p>
            : <Probability answer={answer} evidence={answered} prior={prior.columns} />}
          {!isImpossible && <MostProbable columns={columns} evidence={answered} completion={known.completion} />}
          {!isImpossible && <Strip components={answer.components} />}
          {target !== null && known.target !== null && known.target.posterior.length === columns[target].size && !isImpossible
            && <Jump column={columns[target]} posterior={known.target.posterior} />}
        </div>
      </div>
      <div class="body">
        <Target
          columns={columns} target={target} prior={prior.columns} evidence={answered} pinned={known.pinned?.columns ?? null}
          about={known.target} information={known.information} isImpossible={isImpossible} aim={aim} show={show}
        />
        <main>
          <div class="tools">
            <input
              id="filter" type="search" placeholder={`Find among ${columns.length} columns`} aria-label="Find columns" value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
            <label>Sort <select value={sort} onChange={(event) => setSort(event.currentTarget.value as Sort)}>
              <option value="table">as in the table</option>
              <option value="change">by change</option>
              <option value="information" disabled={target === null}>by information about the target</option>
              <option value="name">by name</option>
            </select></label>
            <fieldset class="modes">
              <legend>A click means</legend>
              {([["choose", "is"], ["exclude", "is not"], ["range", "range to"]] as const).map(([value, text]) => (
                <label key={value}><input type="radio" name="mode" checked={mode === value} onChange={() => setMode(value)} /><span>{text}</span></label>
              ))}
            </fieldset>
          </div>
          {isChanged && (
            <p class="legend hint">
              <span><i class="now" />given what you set</span>
              {pinned !== null && <span><i class="held" />pinned</span>}
              <span><i class="prior" />with nothing set</span>
              <span>“moved”: how much of the probability went from some values to others</span>
            </p>
          )}
          {visible.length === 0 && <p class="hint">No column matches “{filter}”.</p>}
          <div class="tiles">
            {visible.map((c) => (
              <Tile
                key={c} column={columns[c]} place={c} prior={prior.columns[c]} now={answer.columns[c]}
                pinned={known.pinned?.columns[c] ?? null} mask={evidence.get(c)} isTarget={target === c}
                isImpossible={isImpossible} act={act} release={letGo} aim={aim}
              />
            ))}
          </div>
        </main>
      </div>
      <footer>
        {data.size.components > 1
          ? <>A mixture of {data.size.components.toLocaleString("en")} circuits</>
          : <>A circuit</>} over {columns.length.toLocaleString("en")} columns, with {data.model.edges.toLocaleString("en")} edges
        and {data.model.parameters.toLocaleString("en")} parameters. Every probability is <button class="link" onClick={() => setDialog("why")}>exact</button>.
        No rows of data are in this file. Made with Strudel {data.version}.
      </footer>
      <p class="toast" role="status">{toast}</p>
      <p class="unseen" role="status" aria-live="polite">{spoken(known, prior, columns, now)}</p>
      {dialog === "help" && <Help close={() => setDialog(null)} />}
      {dialog === "why" && <Why data={data} close={() => setDialog(null)} />}
    </div>
  );
}

function withMessage(before: Known, message: Exclude<Message, { kind: "ready" | "failed" }>): Known {
  const base = before.id === message.id ? before
    : { ...NOTHING, answer: before.answer, pinned: before.pinned, target: before.target, information: before.information, id: message.id };
  const done = [...base.done, message.kind];
  switch (message.kind) {
    case "answer": return { ...base, answer: message.answer, pinned: message.pinned, clash: null, milliseconds: message.milliseconds, done };
    case "clash": return { ...base, clash: message.columns, pinned: message.pinned, done };
    case "target": return { ...base, target: message.target, information: message.target === null ? null : base.information, done };
    case "information": return { ...base, information: message.information, done };
    case "completion": return { ...base, completion: message.completion, done };
  }
}

function ordered(
  sort: Sort, columns: { name: string }[], answer: Answer, reference: Answer, information: Information[] | null, now: Scenario,
): number[] {
  const places = [...columns.keys()];
  if (sort === "name") return places.sort((a, b) => columns[a].name.localeCompare(columns[b].name) || a - b);
  if (sort === "table") return places;
  const score = new Float64Array(columns.length);
  if (sort === "change") places.forEach((c) => (score[c] = moved(answer.columns[c], reference.columns[c])));
  else for (const { column, nats } of information ?? []) score[column] = nats;
  // What is set comes first, in the order in which it was set.
  [...now.evidence.keys()].forEach((c, i) => (score[c] = 1e6 - i));
  if (sort === "information" && now.target !== null) score[now.target] = 2e6;
  return places.sort((a, b) => score[b] - score[a] || a - b);
}

/** Tiles that change places take the focus with them. */
function useFocusKept(order: number[]): void {
  const last = useRef<{ column: string; value: string } | null>(null);
  useEffect(() => {
    const onFocus = (event: FocusEvent) => {
      const value = (event.target as Element).closest?.<HTMLElement>("[data-value]");
      const column = value?.closest<HTMLElement>("[data-place]")?.dataset.place;
      last.current = value && column ? { column, value: value.dataset.value! } : null;
    };
    addEventListener("focusin", onFocus);
    return () => removeEventListener("focusin", onFocus);
  }, []);
  useLayoutEffect(() => {
    if (last.current && document.activeElement === document.body) {
      const { column, value } = last.current;
      document.querySelector<HTMLElement>(`[data-place="${column}"] [data-value="${value}"]`)?.focus();
    }
  }, [order]);
}

function spoken(known: Known, prior: Answer, columns: { name: string; texts: string[] }[], now: Scenario): string {
  if (known.clash !== null) return `Impossible together: ${known.clash.map((c) => columns[c].name).join(" and ")}.`;
  if (known.answer === null || now.evidence.size === 0) return "";
  let [most, at, value] = [0, -1, 0];
  known.answer.columns.forEach((p, c) => {
    if (now.evidence.has(c)) return;
    p.forEach((x, k) => {
      const difference = Math.abs(x - prior.columns[c][k]);
      if (difference > most) [most, at, value] = [difference, c, k];
    });
  });
  const change = at < 0 ? "" : ` Largest change: ${columns[at].name} ${columns[at].texts[value]}, `
    + `from ${percent(prior.columns[at][value])} to ${percent(known.answer.columns[at][value])}.`;
  return `${oneIn(known.answer.logP)}.${change}`;
}

/** On a phone the target comes after the tiles: what it says in one line, and the way there. */
function Jump({ column, posterior }: { column: Column; posterior: Float64Array }): JSX.Element {
  const likely = posterior.indexOf(Math.max(...posterior));
  return (
    <button class="jump" onClick={() => document.querySelector(".panel")?.scrollIntoView({ behavior: "smooth" })}>
      <bdi>{column.name}</bdi>: <b><bdi>{column.texts[likely]}</bdi></b> {percent(posterior[likely])} ↓
    </button>
  );
}

const THEMES = ["auto", "light", "dark"] as const;

function Theme(): JSX.Element {
  const [theme, setTheme] = useState<(typeof THEMES)[number]>(() => {
    try {
      return (localStorage.getItem("strudel-theme") as (typeof THEMES)[number] | null) ?? "auto";
    } catch {
      return "auto"; // some pages may not keep anything
    }
  });
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("strudel-theme", theme);
    } catch {
      // then it is forgotten
    }
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const sign = { auto: "◐", light: "☀", dark: "☾" }[theme];
  return <button class="theme" onClick={() => setTheme(next)} aria-label={`Colours: ${theme}`} title={`Colours: ${theme}. Click for ${next}.`}>{sign}</button>;
}
