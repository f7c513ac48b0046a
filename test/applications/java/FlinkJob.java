import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.SourceFunction;

/** Submits a job (its argument is the directory of Flink's configuration) that counts, and prints what checkpoints hold. */
public class FlinkJob {
  public static void main(String[] args) throws Exception {
    StreamExecutionEnvironment environment =
        new StreamExecutionEnvironment(GlobalConfiguration.loadConfiguration(args[0]));
    environment.setParallelism(1);
    environment.enableCheckpointing(500);
    environment.addSource(new Counter(), Types.LONG).sinkTo(new DiscardingSink<>());
    System.out.println("runs as job " + environment.executeAsync("count").getJobID());
    System.exit(0);
  }

  public static class Counter implements SourceFunction<Long>, CheckpointedFunction, CheckpointListener {
    private volatile boolean running = true;
    private long count;
    private java.util.TreeMap<Long, Long> snapshots = new java.util.TreeMap<>();
    private transient ListState<Long> state;

    @Override
    public void run(SourceContext<Long> context) throws Exception {
      while (running) {
        synchronized (context.getCheckpointLock()) {
          context.collect(count++);
        }
        Thread.sleep(1);
      }
    }

    @Override
    public void cancel() {
      running = false;
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
      state.clear();
      state.add(count);
      snapshots.put(context.getCheckpointId(), count);
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
      state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("count", Types.LONG));
      for (long held : state.get()) {
        count = held;
      }
      System.out.println("begins at " + count);
    }

    @Override
    public void notifyCheckpointComplete(long id) {
      System.out.println("checkpoint " + id + " holds " + snapshots.remove(id));
      snapshots.headMap(id).clear();
    }
  }
}
