/** The short state at the bottom of the window. */

import type { Controller } from "./controller";
import { barError, barOff, barStarting, barWorking } from "./text";

export function barText(controller: Controller): string {
	const { view } = controller;
	if (view.phase === "working") return barWorking(view.facts);
	if (view.phase === "starting") return barStarting();
	return view.phase === "error" ? barError() : barOff();
}
