// The colour of a class: its own where ten are enough, else by rank, the nearest ones.

let few = true;
let ranks = new Map();

export const begin = (summary) => (few = summary.classes.length <= 10);
export const rank = (ranking) => (ranks = new Map(ranking.slice(0, 9).map((k, place) => [k, place])));
export const colour = (k) => (few ? `k${k}` : ranks.has(k) ? `k${ranks.get(k)}` : "kx");
