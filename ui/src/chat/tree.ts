/**
 * A chat as a tree of turns. Pure: every change gives a new tree, and the turns that did not change stay the same objects.
 *
 * 1. What the server holds may be damaged: a turn whose parent is not there is shown as a first turn, and where parents
 *    go in a circle the circle is cut at its oldest turn. No turn is lost, and no walk is endless.
 * 2. Siblings are in the order of their creation; the order never changes by looking.
 */

import type { Turn } from "../api/chats";

export interface Tree {
  readonly turns: ReadonlyMap<string, Turn>;
  /** By the id of a turn, those after it; by null, the first turns. */
  readonly children: ReadonlyMap<string | null, readonly string[]>;
}

export const EMPTY: Tree = { turns: new Map(), children: new Map() };

export function treeOf(turns: Iterable<Turn>): Tree {
  const byId = new Map<string, Turn>();
  for (const turn of turns) byId.set(turn.id, turn);
  const parents = soundParents(byId);
  const children = new Map<string | null, string[]>();
  for (const id of byId.keys()) {
    const parent = parents.get(id) ?? null;
    const there = children.get(parent);
    if (there === undefined) children.set(parent, [id]);
    else there.push(id);
  }
  const age = (id: string): number => byId.get(id)?.created_at ?? 0;
  // Sorting is stable, so that turns of one second keep the order in which they came.
  for (const ids of children.values()) ids.sort((one, other) => age(one) - age(other));
  return { turns: byId, children };
}

/** The parent of each turn, where it has one that leads to a first turn. */
function soundParents(turns: ReadonlyMap<string, Turn>): Map<string, string | null> {
  const parents = new Map<string, string | null>();
  for (const start of turns.keys()) {
    const walked: string[] = [];
    const onWalk = new Set<string>();
    let at: string | null = start;
    while (at !== null && !parents.has(at) && !onWalk.has(at)) {
      walked.push(at);
      onWalk.add(at);
      const parent: string | null = turns.get(at)?.parent ?? null;
      at = parent !== null && turns.has(parent) ? parent : null;
    }
    if (at !== null && onWalk.has(at)) {
      const circle = walked.slice(walked.indexOf(at));
      const oldest = circle.reduce((one, other) => ((turns.get(other)?.created_at ?? 0) < (turns.get(one)?.created_at ?? 0) ? other : one));
      parents.set(oldest, null);
    }
    for (const id of walked) {
      if (parents.has(id)) continue;
      const parent = turns.get(id)?.parent ?? null;
      parents.set(id, parent !== null && turns.has(parent) ? parent : null);
    }
  }
  return parents;
}

/** The parent as the tree has it, which is null for an orphan. */
export function parentOf(tree: Tree, id: string): string | null {
  const said = tree.turns.get(id)?.parent ?? null;
  if (said !== null && tree.children.get(said)?.includes(id)) return said;
  return null;
}

/** The turns from the first to this one; none where it is not there. */
export function pathTo(tree: Tree, id: string | null): Turn[] {
  const path: Turn[] = [];
  for (let at = id; at !== null; at = parentOf(tree, at)) {
    const turn = tree.turns.get(at);
    if (turn === undefined) break;
    path.push(turn);
  }
  return path.reverse();
}

export function childrenOf(tree: Tree, id: string | null): Turn[] {
  return (tree.children.get(id) ?? []).flatMap((child) => tree.turns.get(child) ?? []);
}

/** The alternatives to a turn with itself among them, and where it stands (from 0). */
export function siblingsOf(tree: Tree, id: string): { turns: Turn[]; at: number } {
  const turns = tree.turns.has(id) ? childrenOf(tree, parentOf(tree, id)) : [];
  return { turns, at: turns.findIndex((turn) => turn.id === id) };
}

/** The end of the branch below a turn that was written last: where to go when the turn is chosen. Null is the whole tree. */
export function newestLeaf(tree: Tree, id: string | null): string | null {
  if (id !== null && !tree.turns.has(id)) return null;
  let newest: Turn | null = null;
  let order = -1;
  const places = new Map([...tree.turns.keys()].map((turn, place) => [turn, place]));
  const open: (string | null)[] = [id];
  while (open.length > 0) {
    const at = open.pop() as string | null;
    const below = tree.children.get(at) ?? [];
    open.push(...below);
    const turn = at === null ? undefined : tree.turns.get(at);
    if (turn === undefined || below.length > 0) continue;
    const place = places.get(turn.id) ?? 0;
    if (newest === null || turn.created_at > newest.created_at || (turn.created_at === newest.created_at && place > order)) {
      newest = turn;
      order = place;
    }
  }
  return newest?.id ?? null;
}

/** Put a turn in, or another in the place of the one with its id. */
export function put(tree: Tree, turn: Turn): Tree {
  const before = tree.turns.get(turn.id);
  const turns = new Map(tree.turns).set(turn.id, turn);
  // The usual case, many times a minute while an answer is saved: nothing moves.
  if (before !== undefined && before.parent === turn.parent && before.created_at === turn.created_at) {
    return { turns, children: tree.children };
  }
  return treeOf(turns.values());
}

/** Take out a turn and all that follow it. */
export function remove(tree: Tree, id: string): Tree {
  const gone = new Set<string>();
  const open = tree.turns.has(id) ? [id] : [];
  while (open.length > 0) {
    const at = open.pop() as string;
    gone.add(at);
    open.push(...(tree.children.get(at) ?? []));
  }
  return treeOf([...tree.turns.values()].filter((turn) => !gone.has(turn.id)));
}
