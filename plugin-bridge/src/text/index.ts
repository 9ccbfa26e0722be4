/** Every sentence that a person reads, in one place. */

export * from "./labels";
export * from "./records";
export * from "./state";
export * from "./trouble";
export * from "./words";
