import { REAL } from "./desk";
import { describeSession } from "./suite";

describeSession("real", REAL);
