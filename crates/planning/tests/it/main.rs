//! Tests of planning as other crates use it.

mod assignment;
mod explore;
mod hostile;
mod items_to_holders;
mod madmax;
mod partitions;
mod planner;
mod properties;
mod reductions;
mod rules;
mod run;
mod steps;
mod table1;
mod timelines;
mod trained;
