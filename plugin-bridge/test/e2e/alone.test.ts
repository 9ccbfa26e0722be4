import { REAL } from "./desk";
import { describeReal } from "./reality";

describeReal(REAL);
