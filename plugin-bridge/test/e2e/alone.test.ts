import { describeCompany } from "./company";
import { preferPython, REAL } from "./desk";
import { describeReal } from "./reality";

preferPython();
describeReal(REAL);
describeCompany(REAL);
