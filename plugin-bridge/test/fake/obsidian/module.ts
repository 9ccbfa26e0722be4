/**
 * The module `obsidian`, whose published package has types and no code.
 *
 * Each class says by `implements` that it fits the real type, so that the compiler refuses a fake that drifts. What it
 * does not have throws. Its look is not the app's; what it draws, and when, is.
 */

import type * as real from "obsidian";

export { FileSystemAdapter } from "./app";
export {
	ButtonComponent,
	DropdownComponent,
	ExtraButtonComponent,
	ProgressBarComponent,
	SecretComponent,
	setIcon,
	TextComponent,
	ToggleComponent,
} from "./components";
export { Component, Plugin } from "./plugin";
export { Setting, SettingGroup } from "./setting";
export { PluginSettingTab, SettingTab } from "./tab";
export { ConfirmationModal, Modal, Notice } from "./windows";

export const apiVersion = "1.13.1";

export const Platform = { isDesktop: true, isMobile: false, isMacOS: false, isWin: false, isLinux: true } satisfies Partial<
	typeof real.Platform
>;
