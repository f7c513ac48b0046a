import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;

/** A driver of Spark ("MASTERS" is its argument) that runs jobs one after the other and prints the result of each. */
public class SparkWork {
  public static void main(String[] args) throws Exception {
    SparkConf conf = new SparkConf().setMaster(args[0]).setAppName("application").set("spark.ui.enabled", "false")
        .set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        .set("spark.executor.memory", "471859200b").set("spark.cores.max", "1");
    JavaSparkContext context = new JavaSparkContext(conf);
    JavaRDD<Integer> numbers =
        context.parallelize(IntStream.range(0, 1000).boxed().collect(Collectors.toList()), 2);
    for (int i = 0; ; i++) {
      long count = numbers.count();
      System.out.println("job " + i + " counted " + count);
      Thread.sleep(20);
    }
  }
}
