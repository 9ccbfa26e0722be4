import { describeFaults } from "./faults";
import { FAKE, preferPython } from "./desk";
import { describeSession } from "./suite";

preferPython();
describeSession("fake", FAKE);
describeFaults();
