import { preferPython } from "./desk";
import { describeFaults } from "./faults";

preferPython();
describeFaults();
